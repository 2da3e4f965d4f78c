"""Parameters that nothing reads: every cell of such a sweep would compute the same, and cost money."""

from __future__ import annotations

from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.model.job.cells import differing
from leasehold.model.job.job import Job
from leasehold.model.job.placeholders import NAMES, PARAM

_LOOKED_AT_BYTES = 1 << 20
_MOST_BYTES = 64 << 20


def unread(job: Job, tree: CodeTree) -> str:
    """Return the differing parameters that no command names, where no file of the code reads any; else empty."""
    commands = "\n".join([job.setup, job.run, job.evaluate, *job.env.values()])
    all_at_once = (PARAM.rstrip("_") + "S", NAMES["cell"])  # $LEASE_PARAMS has all of them, and the cell's name its own
    missing = [name for name in differing(job.cells) if PARAM + name not in commands]
    if not missing or any(word in commands for word in all_at_once) or _code_reads(tree):
        return ""
    named = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
    fix = f"write {{{{{missing[0]}}}}} in `run`, or read ${PARAM}{missing[0]} in the code"
    return f"nothing reads {named}: cells that differ only in that run the same; {fix}"


def _code_reads(tree: CodeTree) -> bool:
    left = _MOST_BYTES
    for entry in tree.entries:
        size = int(entry.get("bytes", _MOST_BYTES))
        if size > _LOOKED_AT_BYTES or size > left:
            continue
        left -= size
        text = b"".join(tree.read(entry))
        if PARAM.rstrip("_").encode() in text or NAMES["cell"].encode() in text:
            return True
    return False
