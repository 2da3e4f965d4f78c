"""What a receipt says of results that the box published: where they lie, and whether they are those that came home."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leasehold.kit.files.manifest import contents_sha256
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import count
from leasehold.model.run.note import Note

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.model.run.receipt import Receipt

_MOST = 1000


def published_facts(seen: RunSeen, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Compare what the box says it published and read back with the manifest of what is home; {} if nothing was."""
    said = seen.get("published")
    if not isinstance(said, dict) or not said.get("to"):
        return {}
    to = one_line(str(said["to"])[:_MOST])
    if said.get("problem"):
        return {"to": to, "problem": one_line(str(said["problem"])[:_MOST])}
    files, size = (said.get(key) for key in ("files", "bytes"))
    return {
        "to": to,
        "files": files if isinstance(files, int) else 0,
        "bytes": size if isinstance(size, int) else 0,
        "equal": said.get("contents_sha256") == contents_sha256(dict(manifest)),
    }


def note_of(receipt: Receipt) -> tuple[Note, ...]:
    """Say where the results were published, or why not."""
    facts = receipt.published
    if not facts:
        return ()
    if facts.get("problem"):
        return (Note("warning", f"not published to {facts['to']}: {facts['problem']}", dict(facts)),)
    files = count(facts["files"], "file")
    same = "the same as at home" if facts["equal"] else "NOT the same files as came home"
    kind = "published" if facts["equal"] else "warning"
    return (Note(kind, f"published by the box, read back there: {files} in {facts['to']}, {same}", dict(facts)),)
