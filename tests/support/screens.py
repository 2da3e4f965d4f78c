"""What a person sees: commands typed on a real terminal, kept as screens and compared with golden files.

LEASEHOLD_GOLDEN=write keeps what is seen now; read the difference before you commit it.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import shlex
from pathlib import Path
from typing import Any, Callable, List, Sequence, Tuple, Union

import pexpect  # type: ignore[import-untyped]

from tests.support.front import LEASE, Front, Tmpfs

GOLDEN = Path(__file__).resolve().parents[1] / "real" / "golden"
_COLUMNS = 100
_PATIENCE_S = 180.0

# What differs from one day or machine to the next, in the order in which it is replaced.
_RULES: Sequence[Tuple[str, str]] = (
    (r"ago +(5/5 +0\.0312|- +-) +- ", "ago  <how far>  -  "),  # whether the last beat was heard is a race
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
    (r"(?<=[a-z])-[0-9a-f]{10}\b", "-<hash>"),
    (r"\bcode [0-9a-f]{12}\b", "code <hash>"),
    (r"\(#[0-9a-f]{4}\)", "(#<tag>)"),
    (r"SHA256:[A-Za-z0-9+/]{43}", "SHA256:<key>"),
    (r"\b(caretaker|pid) \d+", r"\1 <pid>"),
    (r"(127\.0\.0\.1:|\bport )\d{4,5}\b", r"\1<port>"),
    (r"\b\d+(?:\.\d+)? (?:s|min(?: \d+ s)?)\b", "<n> s"),  # a slow machine is past the first minute
    (r"\b\d\d:\d\d:\d\d\b", "<clock>"),
    (r"\b(finished|failed) <n> s ago and", r"just \1 and"),
    (r", (?:[\d.]+ [A-Z]{3}|<cost>) since then", ""),
    (r", [\d.]+ [A-Z]{3} so far", ", <cost> so far"),
)
_SIZES: Sequence[Tuple[str, str]] = (
    (r"\b\d[\d,.]* (?=B\b|[kMGT]B\b|inodes\b|files\b|cores\b|free\b)", "<n> "),
    (r"\b\d+%(?= used)", "<n>%"),
    (r"(host shows|open files limit) \d+", r"\1 <n>"),
)

Answer = Union[str, Callable[[], object]]

# The caretaker notes the start while the trainer prints its first line: either may be told first. How far a pull has
# come is told once a second, so only where it, or the handshake before it, takes that long; a smoke has a clock.
_RACES = re.compile(r"(?:\* )?(?:attempt \d+ runs as pid|pulled \S+ \S+ of \S+ \S+, |smoke: .* of at most )")


class Session:
    """One person's terminal from the first command to the last."""

    def __init__(self, person: Front, name: str, hide: Sequence[Tuple[str, str]] = ()) -> None:
        """Begin; hide names more that differs, as (regex, replacement)."""
        self._person = person
        self._name = name
        self._hide = hide
        self._parts: List[str] = []

    def note(self, text: str) -> None:
        """Say what the person did beside typing commands."""
        self._parts.append("# %s\n" % text)

    def type(self, line: str, *answers: Tuple[str, Answer], disk: Any = None, code: int = 0) -> str:
        """Type a command; at each pattern of answers, type a line or do something. Returns what it printed."""
        words = [*(disk.words() if isinstance(disk, Tmpfs) else []), *LEASE, *shlex.split(line)[1:]]
        seen = io.StringIO()
        child = pexpect.spawn(
            words[0],
            words[1:],
            cwd=str(self._person.project),
            env={**self._person.environment, "TERM": "xterm", "COLUMNS": str(_COLUMNS)},
            dimensions=(40, _COLUMNS),
            encoding="utf-8",
            codec_errors="replace",
            timeout=_PATIENCE_S,
        )
        child.logfile_read = seen
        try:
            for pattern, answer in answers:
                child.expect(pattern)
                if callable(answer):
                    answer()
                elif answer == "^C":
                    child.sendintr()
                else:
                    child.sendline(answer)
            child.expect(pexpect.EOF)
        except pexpect.TIMEOUT:
            raise AssertionError("`%s` waited for what did not come; so far:\n%s" % (line, seen.getvalue())) from None
        finally:
            child.close(force=True)
        said = re.sub(r"\^C\n?", "", seen.getvalue().replace("\r\n", "\n"))  # the terminal's echo, at any moment
        ended = "" if child.exitstatus == 0 else "[exit %s]\n" % child.exitstatus
        self._parts.append("$ %s\n%s%s\n" % (line, said, ended))
        assert child.exitstatus == code, "`%s` exited with %s:\n%s" % (line, child.exitstatus, said)
        return said

    def check(self, sizes: bool = False) -> None:
        """Compare the whole session with its golden file, or keep it as that."""
        seen = self._normal("".join(self._parts), sizes)
        path = GOLDEN / (self._name + ".txt")
        if os.environ.get("LEASEHOLD_GOLDEN") == "write":
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(seen, encoding="utf-8")
            return
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if seen != kept:
            lines = difflib.unified_diff(
                kept.splitlines(), seen.splitlines(), "kept in %s" % path, "seen now", lineterm=""
            )
            how = "\nif that is right: LEASEHOLD_GOLDEN=write python -m pytest %s" % path.parents[1]
            raise AssertionError("the screens of %s differ:\n%s%s" % (self._name, "\n".join(lines), how))

    def _normal(self, text: str, sizes: bool) -> str:
        text = text.replace(os.path.realpath(self._person.folder), "<tmp>").replace(str(self._person.folder), "<tmp>")
        for pattern, put in (*self._hide, *_RULES, *(_SIZES if sizes else ())):
            text = re.sub(pattern, put, text)
        lines = [re.sub(r"(?<=\S)\s{2,}", "  ", line).rstrip() for line in text.split("\n")]
        lines = [line for line in lines if not _RACES.match(line)]
        return "\n".join(lines)
