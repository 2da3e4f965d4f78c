"""A phrase that a person types on the controlling terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from leasehold.errors import Refusal

Ask = Callable[[str], str]


def require_phrase(ask: Ask, question: str, phrase: str, undone: str = "nothing was done") -> None:
    """Require a person to type a phrase after a question; any other answer refuses and names what was not done."""
    answer = ask(f"{question}, type exactly:  {phrase}\n> ").strip()
    if answer != phrase:
        raise Refusal("approval.not_given", f"{answer!r} is not the phrase; {undone}")


_NO_TERMINAL_HINT = "from a script or agent: lease down … --request FILE, have a person sign it, then --approval FILE"


def terminal_ask(question: str, hint: str = _NO_TERMINAL_HINT) -> str:
    """Ask on the controlling terminal, not on stdin: a pipe cannot answer."""
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            terminal.write(question.encode())
            answer = bytearray()
            while not answer.endswith(b"\n"):
                byte = terminal.read(1)
                if not byte:
                    break
                answer += byte
    except OSError:
        windows = sys.platform == "win32"
        raise Refusal(
            "approval.no_terminal",
            "typed approvals need a POSIX terminal" if windows else "there is no terminal to type on",
            hint=hint,
        ) from None
    return answer.decode("utf-8", "replace")
