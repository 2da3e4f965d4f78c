"""Ways for a person to approve: typed on the terminal, signed with an ssh key, or in a rehearsal."""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.errors import HomeError, Refusal, UserError
from leasehold.gates.end.teardown import TeardownReadings, ask_for
from leasehold.kit.files.canonical_json import canonical
from leasehold.lifecycle.home.home import person
from leasehold.model.run.receipt import (
    APPROVAL_LIFE_S,
    APPROVAL_SCHEMA,
    Approval,
    ApprovalRequest,
    SigningKey,
    Strength,
)

from .allowed_signers import NO_TOUCH_REQUIRED, VERIFY_REQUIRED, AllowedSigners, SignersError, parse_signers
from .phrase import Ask, require_phrase
from .ssh_signature import MAX_FILE_BYTES, PRESENT, VERIFIED, WEBAUTHN, SignatureError, SshSignature, parse_signature

NAMESPACE = "leasehold-approval"


def new_request(readings: TeardownReadings) -> ApprovalRequest:
    """Build the request for approval; it expires after 15 minutes."""
    return ask_for(readings, secrets.token_hex(8), int(time.time()) + APPROVAL_LIFE_S)


def typed(request: ApprovalRequest, phrase: str, ask: Ask) -> Approval:
    """Require a person to type the verb and the lease on the controlling terminal."""
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


def signed(path: Path, signers: Path, enrolled: Mapping[str, float]) -> Approval:
    """Check PATH and PATH.sig against the enrolled lines of a file, given as mark -> enrolment time."""
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
            hint="a person enrols a key: lease signer add KEY.pub",
        )
    parsed = _read_signature(signature)
    everyone = _read_signers(signers)
    since_unix = _require_enrolled(parsed, everyone, enrolled, signers)
    allowed = everyone.only(enrolled)
    with tempfile.TemporaryDirectory(prefix="leasehold-approval-") as place:
        # Private copies: ssh-keygen must check the very bytes whose flags are judged below.
        files = _Checked(Path(place, "signature"), Path(place, "allowed_signers"), signature, signers)
        files.signature.write_bytes(parsed.armored)
        files.signers.write_text(allowed.plain, encoding="utf-8", errors="surrogateescape")
        who = _principal(files)
        _verify(files, who, path, data)
    _require_person(parsed, allowed, files)
    key = SigningKey(parsed.key_kind, parsed.fingerprint, parsed.flags, since_unix)
    return Approval(request, Strength.SIGNED, who, time.time(), key)


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
        raise UserError("approval.unreadable", f"{path} differs from the request that we wrote")
    return request, data


@dataclass(frozen=True)
class _Checked:
    """The private copies that ssh-keygen reads, and the files they stand for."""

    signature: Path
    signers: Path
    signature_file: Path
    signers_file: Path

    def words(self, text: str) -> str:
        """Replace our paths by the person's own file names in ssh-keygen's output."""
        named = text.replace(str(self.signers), str(self.signers_file))
        return named.replace(str(self.signature), str(self.signature_file)).strip()


def _read_signature(path: Path) -> SshSignature:
    try:
        with open(path, "rb") as file:
            return parse_signature(file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise UserError("approval.unreadable", f"{path}: {error.strerror}") from None
    except SignatureError as error:
        raise Refusal(
            "approval.bad_signature",
            f"{path} is not an SSH signature that can be checked",
            seen=str(error),
            hint=f"sign again: ssh-keygen -Y sign -n {NAMESPACE} -f KEY {path.with_suffix('')}",
        ) from None


def _read_signers(path: Path) -> AllowedSigners:
    try:
        return parse_signers(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError as error:
        raise UserError("approval.no_signers", f"{path}: {error.strerror}") from None
    except SignersError as error:
        raise UserError(
            "approval.bad_signers",
            f"{path}, {error}",
            hint='such a line reads: NAME namespaces="leasehold-approval",verify-required KEY-TYPE AAAA…',
        ) from None


def _require_enrolled(
    signature: SshSignature, everyone: AllowedSigners, enrolled: Mapping[str, float], file: Path
) -> float:
    """Return since when a key is allowed; refuse a key whose line nobody enrolled."""
    mine = [signer for signer in everyone.signers if signer.made(signature.key, signature.authority)]
    since = [enrolled[signer.mark] for signer in mine if signer.mark in enrolled]
    if mine and not since:
        raise Refusal(
            "approval.signer_not_confirmed",
            f"{file}, line {mine[0].number}, names the {mine[0].kind} key {mine[0].fingerprint}, and nobody allowed it",
            seen="the line was written or changed by something other than `lease signer`",
            hint=f"if the key is yours, on a terminal: lease signer confirm {mine[0].fingerprint}",
        )
    return max(since, default=0.0)


def _principal(files: _Checked) -> str:
    found = _keygen("find-principals", files, [], b"")
    names = found.stdout.decode("utf-8", "surrogateescape").splitlines()
    if found.returncode != 0 or not names:
        raise Refusal(
            "approval.unknown_signer",
            f"nobody in {files.signers_file} made {files.signature_file}",
            seen=files.words(found.stderr.decode("utf-8", "replace")),
        )
    return names[0]


def _verify(files: _Checked, who: str, path: Path, data: bytes) -> None:
    checked = _keygen("verify", files, ["-I", who, "-n", NAMESPACE], data)
    if checked.returncode != 0:
        raise Refusal(
            "approval.bad_signature",
            f"the signature on {path} does not hold",
            seen=files.words(checked.stderr.decode("utf-8", "replace")),
        )


def _keygen(what: str, files: _Checked, words: list[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    asked = ["ssh-keygen", "-Y", what, "-f", str(files.signers), *words, "-s", str(files.signature)]
    try:
        return subprocess.run(asked, input=data, capture_output=True, check=False)
    except (FileNotFoundError, PermissionError):
        raise HomeError(
            "approval.no_keygen", "there is no ssh-keygen here to check the signature", hint="install OpenSSH's client"
        ) from None


def _require_person(signature: SshSignature, allowed: AllowedSigners, files: _Checked) -> None:
    """Require a touch of a security key, and its PIN or fingerprint where the signer's line demands it.

    ssh-keygen -Y verify checks neither: an agent could sign with a key that nobody touched.
    """
    key = f"{signature.key_kind} key {signature.fingerprint}"
    if signature.algorithm == WEBAUTHN:
        raise Refusal(
            "approval.browser_key",
            f"{files.signature_file} was made by a web browser ({WEBAUTHN}); such signatures approve nothing",
            seen="a web page asked for the touch, and what the person was shown is unknown",
            hint=f"sign with ssh-keygen -Y sign -n {NAMESPACE} -f KEY",
        )
    if signature.flags is not None and not signature.flags & PRESENT:
        ignored = allowed.lines_of(signature.key, signature.authority, NO_TOUCH_REQUIRED)
        why = f"; {NO_TOUCH_REQUIRED} in {files.signers_file}, line {ignored[0]}, has no effect here" if ignored else ""
        raise Refusal(
            "approval.not_touched",
            f"the {key} signed without being touched: no person approved this",
            seen=f"the signature's flags are 0x{signature.flags:02x}, without user presence (0x01){why}",
            hint="sign again and touch the key; one made with -O no-touch-required cannot approve",
        )
    lines = allowed.lines_of(signature.key, signature.authority, VERIFY_REQUIRED)
    certified = VERIFY_REQUIRED in signature.options
    if (lines or certified) and not (signature.flags or 0) & VERIFIED:
        where = f"{files.signers_file}, line {lines[0]}," if lines else "its certificate"
        flags = (
            "not a security key" if signature.flags is None else f"the signature's flags are 0x{signature.flags:02x}"
        )
        raise Refusal(
            "approval.not_verified",
            f"the {key} signed without a PIN or fingerprint, and {where} demands one ({VERIFY_REQUIRED})",
            seen=f"{flags}, without user verification (0x04)",
            hint="use a key made with: ssh-keygen -t ed25519-sk -O verify-required",
        )
