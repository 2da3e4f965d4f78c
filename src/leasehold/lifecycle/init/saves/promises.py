"""Turn files that the code writes into artifacts: patterns below $LEASE_OUT, and what directs the files there."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field, replace

from leasehold.lifecycle.init.options.flag_roles import names_a_file
from leasehold.lifecycle.init.options.tiny import best, with_flag
from leasehold.lifecycle.init.text.project_facts import Base, Flag, Kind, Output, ProjectFacts, Role, Style

EVERYTHING = "**"
_MAX_PROMISES = 24
_PLAIN = re.compile(r"[\w.+@%,:][\w./*?+=@%,:-]*\Z", re.ASCII)


@dataclass
class Promises:
    """The artifacts to bring home, and the changes to the command that put them there."""

    artifacts: list[Output] = field(default_factory=list)
    aside: list[Output] = field(default_factory=list)
    lost: list[Output] = field(default_factory=list)
    flags: dict[str, Flag] = field(default_factory=dict)
    switches: list[Flag] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # in the code's folder: each is linked singly
    copies: list[str] = field(default_factory=list)

    def dress(self, command: str, last: str = "") -> str:
        """Point a command's output flags at $LEASE_OUT, link its fixed folders there, copy its fixed files afterwards.

        `last` is put after all flags.
        """
        for flag in self.switches:
            command = with_flag(command, flag, "")
        for inside, flag in self.flags.items():
            command = with_flag(command, flag, f'"$LEASE_OUT/{inside}"' if inside else '"$LEASE_OUT"')
        command += last
        if not (self.links or self.files or self.copies):
            return command
        lines = ["set -e"]
        for folder in self.links:
            name = shlex.quote(folder)
            lines += [f'mkdir -p "$LEASE_OUT"/{name}', f'ln -sfn "$LEASE_OUT"/{name} {name}']
        lines += [f'ln -sfn "$LEASE_OUT"/{file} {file}' for file in self.files]
        lines.append(command)
        if self.copies:
            lines.append(f'cp -Rp {" ".join(self.copies)} "$LEASE_OUT"/')
        return "\n".join(lines) + "\n"


def find_promises(facts: ProjectFacts) -> Promises:
    """Decide what can be promised, from the files that the chosen entry point writes."""
    found = Promises()
    primary = best(facts.flags, Role.OUTPUT)
    if primary is not None:
        found.flags[_file_name(primary)] = primary
    sure = any(output.base in (Base.OUT, Base.FLAG) and output.pattern for output in facts.outputs)
    for output in facts.outputs:
        elsewhere = facts.entry is not None and output.where.path != facts.entry.path
        if sure and elsewhere and output.base is Base.HERE:  # a default in some module that may never be used
            found.aside.append(output)
        else:
            _place(found, output, facts, primary)
    found.artifacts = _unique([_with_its_like(output) for output in _with_copies(found)])[:_MAX_PROMISES]
    needed = {name for output in found.artifacts for name in output.needs}
    found.switches = [
        flag
        for flag in facts.flags
        if flag.style is Style.SWITCH and flag.default != "True" and flag.attribute in needed
    ]
    return found


def resume_point(artifacts: list[Output]) -> Output | None:
    """Return the checkpoint that a restarted run would load."""
    saved = [
        output for output in artifacts if output.kind is Kind.CHECKPOINT and not output.pattern.endswith(EVERYTHING)
    ]
    named = [output for output in saved if any(word in output.pattern.lower() for word in ("last", "latest", "resume"))]
    trains = [output for output in saved if any(key.startswith("optim") for key in output.keys)]
    return next(iter(named or trains or saved), None)


def _place(found: Promises, output: Output, facts: ProjectFacts, primary: Flag | None) -> None:
    if output.kind is Kind.OTHER or (output.kind is Kind.COPY and not output.pattern):
        found.aside += [output] if output.pattern else []
        return
    match output.base:
        case Base.OUT:
            _promise(found, output, output.pattern)
        case Base.FLAG:
            _promise(found, output, _below_flag(found, output, facts, primary))
        case Base.UNKNOWN:
            known = primary is not None or bool(facts.lease_out)
            _promise(found, output, output.pattern if known else "")
        case Base.HERE:
            _promise(found, output, _brought_over(found, output, facts))
        case Base.ELSEWHERE:
            found.lost.append(output)


def _promise(found: Promises, output: Output, pattern: str) -> None:
    if pattern:
        found.artifacts.append(replace(output, pattern=pattern))
    else:
        found.lost.append(output)


def _below_flag(found: Promises, output: Output, facts: ProjectFacts, primary: Flag | None) -> str:
    flag = next((flag for flag in facts.flags if flag.role is Role.OUTPUT and flag.attribute == output.flag), primary)
    if flag is None:
        return ""
    if flag.style in (Style.SWITCH, Style.POSITION):
        return ""
    file = _file_name(flag)
    if flag == primary or flag in found.flags.values():
        inside = next((place for place, known in found.flags.items() if known == flag), "")
    else:
        inside = file or flag.attribute
        found.flags[inside] = flag
    if file:
        return inside if not output.pattern else ""
    return posixpath.join(inside, output.pattern) if output.pattern else ""


def _brought_over(found: Promises, output: Output, facts: ProjectFacts) -> str:
    """Bring a fixed relative path home: link its first folder into $LEASE_OUT, or copy the file there afterwards."""
    first, _, rest = output.pattern.partition("/")
    if any(mark in first for mark in "*?") and rest:
        return ""
    if rest and first not in facts.folders:
        found.links += [first] if first not in found.links else []
        return output.pattern
    copied = first if rest else output.pattern
    if any(mark in copied for mark in "*?") and not _PLAIN.match(copied):
        return ""
    word = copied if _PLAIN.match(copied) else shlex.quote(copied)
    if not (rest or output.moved or copied in facts.files or any(mark in copied for mark in "*?")):
        found.files += [word] if word not in found.files else []
        return output.pattern
    found.copies += [word] if word not in found.copies else []
    return output.pattern


def _with_its_like(output: Output) -> Output:
    """Promise every checkpoint that a callback leaves in its folder: the last, the best, and what a resume may take."""
    if output.kind is Kind.CHECKPOINT and output.opaque and output.pattern.endswith(".ckpt"):
        return replace(output, pattern=posixpath.join(posixpath.dirname(output.pattern), "*.ckpt"))
    return output


def _with_copies(found: Promises) -> list[Output]:
    """Promise a checkpoint and its copies, such as the best one, by one pattern: a copy may not be made each time."""
    kept = [output for output in found.artifacts if output.kind is not Kind.COPY]
    for copy in (output for output in found.artifacts if output.kind is Kind.COPY):
        folder, name = posixpath.split(copy.pattern)
        ending = name[name.find(".") :] if "." in name else ""
        together = posixpath.join(folder, "*" + ending)
        like = [one for one in kept if one.kind is Kind.CHECKPOINT and _beside(one.pattern, folder, ending)]
        if like and ending:
            kept = [replace(one, pattern=together) if one in like else one for one in kept]
        else:
            found.aside.append(copy)
    return kept


def _beside(pattern: str, folder: str, ending: str) -> bool:
    return posixpath.dirname(pattern) == folder and pattern.endswith(ending)


def _file_name(flag: Flag) -> str:
    name = posixpath.basename(flag.default)
    return name if names_a_file(flag) and _PLAIN.match(name) and not re.search("[*?]", name) else ""


def _unique(outputs: list[Output]) -> list[Output]:
    kept: dict[str, Output] = {}
    for output in outputs:
        known = kept.get(output.pattern)
        if known is None:
            kept[output.pattern] = output
        elif known.keys != output.keys:  # written in two places with different contents: promise what both have
            both = tuple(key for key in known.keys if key in output.keys)
            kept[output.pattern] = replace(known, keys=both, opaque=known.opaque or output.opaque)
    return list(kept.values())
