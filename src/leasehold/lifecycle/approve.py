"""How a person says yes: typed on the terminal, signed with an ssh key, or in a rehearsal."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from leasehold.errors import HomeError, Refusal, UserError
from leasehold.gates.teardown import TeardownReadings, ask_for
from leasehold.kit.canon import canonical
from leasehold.model.receipt import APPROVAL_LIFE_S, APPROVAL_SCHEMA, Approval, ApprovalRequest, Strength

from .home import person

NAMESPACE = "leasehold-approval"
Ask = Callable[[str], str]


def require_phrase(ask: Ask, question: str, phrase: str, undone: str = "nothing was done") -> None:
    """Have a person type a phrase after a question; any other answer refuses, and says what was not done."""
    answer = ask(f"{question}, type exactly:  {phrase}\n> ").strip()
    if answer != phrase:
        raise Refusal("approval.not_given", f"{answer!r} is not the phrase; {undone}")


def new_request(readings: TeardownReadings) -> ApprovalRequest:
    """Spell what is to be approved; it dies after 15 minutes."""
    return ask_for(readings, secrets.token_hex(8), int(time.time()) + APPROVAL_LIFE_S)


def typed(request: ApprovalRequest, phrase: str, ask: Ask) -> Approval:
    """Have a person type the verb and the lease on the controlling terminal."""
    require_phrase(ask, "to approve", phrase)
    return Approval(request, Strength.TYPED, person(), time.time())


def rehearsed(request: ApprovalRequest) -> Approval:
    """Approve for a simulated landlord; the gate refuses it anywhere else."""
    return Approval(request, Strength.REHEARSAL, "rehearsal", time.time())


def write_request(request: ApprovalRequest, path: Path) -> None:
    """Write the request for signing with ssh-keygen -Y sign."""
    try:
        path.write_bytes(canonical(request.as_dict()) + b"\n")
    except OSError as error:
        raise HomeError("approval.unwritable", f"{path}: {error}") from None


def signed(path: Path, signers: Path) -> Approval:
    """Check PATH and PATH.sig against the allowed signers of this home."""
    request, data = _read_request(path)
    signature = path.with_name(path.name + ".sig")
    if not signature.exists():
        raise UserError(
            "approval.unsigned",
            f"there is no {signature}",
            hint=f"ssh-keygen -Y sign -n {NAMESPACE} -f KEY {path}",
        )
    if not signers.exists():
        raise UserError(
            "approval.no_signers",
            f"there is no {signers}",
            hint='put a line there: NAME namespaces="leasehold-approval" ssh-ed25519 AAAA…',
        )
    who = _principal(signature, signers)
    checked = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", who, "-n", NAMESPACE, "-s", str(signature)],
        input=data, capture_output=True, check=False,
    )  # fmt: skip
    if checked.returncode != 0:
        raise Refusal(
            "approval.bad_signature",
            f"the signature on {path} does not hold",
            seen=checked.stderr.decode("utf-8", "replace").strip(),
        )
    return Approval(request, Strength.SIGNED, who, time.time())


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


def _read_request(path: Path) -> tuple[ApprovalRequest, bytes]:
    """Read the request once: what is checked must be what was signed."""
    try:
        data = path.read_bytes()
        value = json.loads(data)
        if value.pop("schema") != APPROVAL_SCHEMA:
            raise ValueError("not an approval request")
        request = ApprovalRequest(**value)
        if [type(value[key]) for key in ("verb", "lease", "evidence", "nonce", "expires_unix")] != [str] * 4 + [int]:
            raise ValueError("not an approval request")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            "approval.unreadable", f"{path}: {error}", hint="make one with: lease down … --request FILE"
        ) from None
    if canonical(request.as_dict()) + b"\n" != data:
        raise UserError("approval.unreadable", f"{path} is not as we wrote it")
    return request, data


def _principal(signature: Path, signers: Path) -> str:
    with tempfile.TemporaryFile() as nothing:
        found = subprocess.run(
            ["ssh-keygen", "-Y", "find-principals", "-f", str(signers), "-s", str(signature)],
            stdin=nothing, capture_output=True, text=True, check=False,
        )  # fmt: skip
    names = found.stdout.split()
    if found.returncode != 0 or not names:
        raise Refusal("approval.unknown_signer", f"nobody in {signers} made {signature}")
    return names[0]
