"""The checkpoints that a job's commands refer to: `{{latest: ckpt-*}}`, and `resume:` with its `{{resume}}`.

The box searches for them before each attempt and sets one variable for each pattern. The commands refer to the
variables, so that they mean the same on every home and box.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from leasehold.kit.files.newest_checkpoint import variable_of
from leasehold.kit.files.paths import UnsafePath, check_relative

_UNFIT = re.compile(r"[`{}()<>;&|\\\n]")


class BadPattern(Exception):
    """A pattern or flags that cannot be used; str() gives the reason."""


@dataclass
class Latest:
    """The patterns in order of appearance, and the flags that `{{resume}}` stands for."""

    patterns: list[str] = field(default_factory=list)
    flags: str = ""

    def variable(self, pattern: str) -> str:
        """Name the variable that holds the box's result for a pattern."""
        try:
            check_relative(pattern)
        except UnsafePath as error:
            raise BadPattern(f"{error}; it is relative to $LEASE_OUT") from None
        if pattern not in self.patterns:
            self.patterns.append(pattern)
        return variable_of(self.patterns.index(pattern))

    def resumes(self, flags: str) -> None:
        """Set the flags of `resume:`, filled in already; they are used only if a checkpoint was found."""
        flags = flags.replace(word(variable_of(0)), f'"${{{variable_of(0)}}}"')
        unfit = _UNFIT.search(re.sub(r"\$\{LEASE_\w+\}", "", flags))
        if unfit:
            raise BadPattern(f"hold {unfit[0]!r}: flags are words and quotes, with {{{{latest}}}} for the path")
        try:
            shlex.split(flags)
        except ValueError:
            raise BadPattern("have a quote that does not close") from None
        self.flags = flags


def word(variable: str) -> str:
    """Format the path as one word of a command, and no word at all if there is none."""
    return f'${{{variable}:+"${{{variable}}}"}}'


def only_when_found(flags: str) -> str:
    """Format flags that are present only if a checkpoint is."""
    return f"${{{variable_of(0)}:+{flags}}}"
