"""Approvals by security keys: a person must have touched the key, whatever ssh-keygen says. Keys are software."""

from __future__ import annotations

import base64
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import Refusal, UserError
from leasehold.gates.end.teardown import RunReadings, TeardownReadings
from leasehold.lifecycle.approval import approve
from leasehold.lifecycle.approval.allowed_signers import SignersError, mark_of, parse_signers
from leasehold.lifecycle.approval.ssh_signature import MAX_FILE_BYTES, SignatureError, parse_signature
from leasehold.model.run.receipt import Approval, Strength
from tests.support.security_key import (
    PRESENT,
    SK_ED25519,
    VERIFIED,
    WEBAUTHN,
    EcdsaSecurityKey,
    Ed25519,
    Ed25519SecurityKey,
    armor,
    sshsig,
    text,
)

ED25519, ECDSA, CA = Ed25519SecurityKey(), EcdsaSecurityKey(), Ed25519(b"a" * 32)
KEYS = {"ed25519": ED25519, "ecdsa": ECDSA}
CA_LINE = "ssh-ed25519 " + base64.b64encode(text(b"ssh-ed25519") + text(CA.public)).decode()
OURS = 'namespaces="leasehold-approval"'
pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="no ssh-keygen here (Debian: apt-get install openssh-client)"
)


@pytest.fixture
def asked(tmp_path: Path) -> tuple[Path, bytes]:
    """A request and what must be signed."""
    path = tmp_path / "ask.json"
    readings = TeardownReadings("box-1", "terminate", True, (RunReadings("toy-1", ("main",)),))
    approve.write_request(approve.new_request(readings), path)
    return path, path.read_bytes()


def signed(path: Path, file: Path) -> Approval:
    """Check a signature where every line of the file was enrolled."""
    text = file.read_text(errors="surrogateescape") if file.exists() else ""
    return approve.signed(path, file, {mark_of(line.strip()): 1.0 for line in text.split("\n")})


def signers(path: Path, line: str) -> Path:
    place = path.with_name("allowed_signers")
    place.write_text(line + "\n")
    return place


def put(path: Path, blob: bytes) -> None:
    path.with_name(path.name + ".sig").write_bytes(armor(blob))


def keygen_accepts(path: Path, line: str) -> bool:
    """What `ssh-keygen -Y verify` says alone."""
    allowed = path.with_name("for-keygen")
    allowed.write_text(line + "\n")
    asking = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "me", "-n", approve.NAMESPACE]
    signature = path.with_name(path.name + ".sig")
    done = subprocess.run([*asking, "-s", str(signature)], input=path.read_bytes(), capture_output=True, check=False)
    return done.returncode == 0


def refused(path: Path, line: str) -> Refusal:
    with pytest.raises(Refusal) as caught:
        signed(path, signers(path, line))
    return caught.value


# ---------------------------------------------------------------- touch


@pytest.mark.parametrize("kind", list(KEYS))
@pytest.mark.parametrize("flags", [0, VERIFIED, 0xFE])
def test_an_untouched_key_approves_nothing_though_ssh_keygen_accepts_it(asked, kind, flags):
    path, data = asked
    key = KEYS[kind]
    put(path, key.sign(data, approve.NAMESPACE, flags))
    assert keygen_accepts(path, f"me {OURS} {key.line}")
    error = refused(path, f"me {OURS} {key.line}")
    assert error.code == "approval.not_touched"
    assert f"0x{flags:02x}" in error.seen
    assert key.kind in error.message


@pytest.mark.parametrize("kind", list(KEYS))
@pytest.mark.parametrize("flags", [PRESENT, PRESENT | VERIFIED])
def test_a_touched_key_approves_and_kind_and_flags_are_recorded(asked, kind, flags):
    path, data = asked
    key = KEYS[kind]
    put(path, key.sign(data, approve.NAMESPACE, flags))
    approval = signed(path, signers(path, f"me {OURS} {key.line}"))
    assert (approval.strength, approval.by) == (Strength.SIGNED, "me")
    assert approval.key is not None
    known = {"kind": key.kind, "fingerprint": approval.key.fingerprint, "flags": flags, "since_unix": 1.0}
    assert approval.key.as_dict() == known
    assert ("PIN or fingerprint checked" in approval.key.words) == bool(flags & VERIFIED)


def test_the_recorded_fingerprint_is_the_one_that_ssh_keygen_prints(asked, tmp_path):
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT))
    approval = signed(path, signers(path, f"me {ED25519.line}"))
    (tmp_path / "key.pub").write_text(ED25519.line + "\n")
    said = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True)
    assert approval.key is not None
    assert approval.key.fingerprint in said.stdout.split()


@pytest.mark.parametrize("option", ["no-touch-required", "No-Touch-Required", f"no-touch-required,{OURS}"])
def test_no_touch_required_in_the_signers_file_does_not_relax_it(asked, option):
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, 0))
    error = refused(path, f"me {option} {ED25519.line}")
    assert error.code == "approval.not_touched"
    assert "line 1, has no effect" in error.seen
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT))
    assert signed(path, signers(path, f"me {option} {ED25519.line}")).by == "me"


def test_flags_changed_after_signing_break_the_signature(asked):
    """The touch bit is part of what is signed: setting it afterwards gains nothing."""
    path, data = asked
    blob = bytearray(ED25519.sign(data, approve.NAMESPACE, 0))
    blob[-5] = PRESENT
    put(path, bytes(blob))
    assert refused(path, f"me {ED25519.line}").code == "approval.bad_signature"


def test_a_key_without_touch_may_not_hide_behind_a_second_signature_file(asked, monkeypatch):
    """The bytes that are judged are those that ssh-keygen checks: the file is read once."""
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT))
    real = approve._principal

    def swapping(*args: object) -> str:
        put(path, ED25519.sign(data, approve.NAMESPACE, 0))
        return real(*args)

    monkeypatch.setattr(approve, "_principal", swapping)
    approval = signed(path, signers(path, f"me {ED25519.line}"))
    assert approval.key is not None
    assert approval.key.flags == PRESENT


# ---------------------------------------------------------------- PIN or fingerprint


@pytest.mark.parametrize("kind", list(KEYS))
@pytest.mark.parametrize(
    "options", ["verify-required", f"{OURS},Verify-Required", f"no-touch-required,verify-required,{OURS}"]
)
def test_verify_required_demands_more_than_a_touch(asked, kind, options):
    path, data = asked
    key = KEYS[kind]
    put(path, key.sign(data, approve.NAMESPACE, PRESENT))
    error = refused(path, f"# keys\nme {options} {key.line} comment")
    assert error.code == "approval.not_verified"
    assert "line 2" in error.message
    put(path, key.sign(data, approve.NAMESPACE, PRESENT | VERIFIED))
    assert signed(path, signers(path, f"# keys\nme {options} {key.line} comment")).by == "me"


def test_one_line_that_demands_it_is_enough(asked):
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT))
    lines = f"me {ED25519.line}\nme verify-required {ED25519.line}"
    assert refused(path, lines).code == "approval.not_verified"


def test_another_keys_demand_is_none_of_this_key(asked):
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT))
    lines = f"me verify-required {ECDSA.line}\nme {ED25519.line}"
    assert signed(path, signers(path, lines)).by == "me"


def test_a_plain_key_cannot_meet_the_demand(asked, tmp_path):
    path, _ = asked
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", str(tmp_path / "plain")]
    subprocess.run(made, check=True, capture_output=True)
    signing = ["ssh-keygen", "-q", "-Y", "sign", "-n", approve.NAMESPACE, "-f", str(tmp_path / "plain"), str(path)]
    subprocess.run(signing, check=True, capture_output=True)
    public = (tmp_path / "plain.pub").read_text().strip()
    error = refused(path, f"me verify-required {public}")
    assert error.code == "approval.not_verified"
    assert "not a security key" in error.seen
    approval = signed(path, signers(path, f"me {public}"))
    assert approval.key is not None
    assert (approval.key.kind, approval.key.flags) == ("ssh-ed25519", None)
    assert "flags" not in approval.key.as_dict()


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize(
    "options, critical, flags, code",
    [
        ("cert-authority", (), 0, "approval.not_touched"),
        ("cert-authority", (), PRESENT, None),
        ("cert-authority,no-touch-required", (), 0, "approval.not_touched"),
        ("cert-authority,verify-required", (), PRESENT, "approval.not_verified"),
        ("cert-authority,verify-required", (), PRESENT | VERIFIED, None),
        ("cert-authority", ("verify-required",), PRESENT, "approval.not_verified"),
        ("cert-authority", ("verify-required",), PRESENT | VERIFIED, None),
    ],
)
def test_a_certified_security_key_is_held_to_the_same(asked, options, critical, flags, code: str | None):
    path, data = asked
    certificate = ED25519.certificate(CA, "me", critical)
    put(path, ED25519.sign(data, approve.NAMESPACE, flags, public=certificate))
    assert keygen_accepts(path, f"me cert-authority {CA_LINE}")
    line = f"me {options} {CA_LINE}"
    if code is not None:
        assert refused(path, line).code == code
        return
    approval = signed(path, signers(path, line))
    assert approval.key is not None
    assert (approval.key.kind, approval.key.flags) == (SK_ED25519, flags)


# ---------------------------------------------------------------- browsers


@pytest.mark.parametrize("flags", [0, PRESENT, PRESENT | VERIFIED])
def test_a_browsers_signature_is_refused_by_name(asked, flags):
    path, data = asked
    put(path, ECDSA.sign_in_browser(data, approve.NAMESPACE, flags, "https://example.org"))
    if not keygen_accepts(path, f"me {ECDSA.line}"):
        pytest.skip("this ssh-keygen does not know webauthn signatures")
    error = refused(path, f"me {ECDSA.line}")
    assert error.code == "approval.browser_key"
    assert WEBAUTHN in error.message


# ---------------------------------------------------------------- damaged signatures


GOOD = ED25519.sign(b"x", approve.NAMESPACE, PRESENT)
CERTIFIED = ED25519.sign(b"x", approve.NAMESPACE, PRESENT, public=ED25519.certificate(CA, "me", ("verify-required",)))
BROWSER = ECDSA.sign_in_browser(b"x", approve.NAMESPACE, PRESENT, "https://example.org")


@pytest.mark.parametrize("blob", [GOOD, CERTIFIED, BROWSER], ids=["plain", "certificate", "browser"])
def test_every_truncation_is_refused_by_name(blob):
    assert parse_signature(armor(blob)).blob == blob
    for length in range(len(blob)):
        with pytest.raises(SignatureError):
            parse_signature(armor(blob[:length]))
    with pytest.raises(SignatureError, match="1 bytes after"):
        parse_signature(armor(blob + b"\0"))


def _inner(signature: bytes) -> bytes:
    return sshsig(ED25519.blob, approve.NAMESPACE, signature)


PROPER = text(SK_ED25519.encode()) + text(b"s" * 64)
DAMAGED = {
    "nothing": (b"", "not one block"),
    "no end": (armor(GOOD).replace(b"-----END", b"-----FIN"), "not one block"),
    "two blocks": (armor(GOOD) * 2, "base64 is damaged"),
    "no base64": (b"-----BEGIN SSH SIGNATURE-----\n!!!!\n-----END SSH SIGNATURE-----\n", "base64 is damaged"),
    "too large": (armor(b"\0" * MAX_FILE_BYTES), "larger than"),
    "another magic": (armor(b"SSHSAG" + GOOD[6:]), "does not begin with SSHSIG"),
    "another version": (armor(GOOD[:6] + struct.pack(">I", 2) + GOOD[10:]), "its version is 2"),
    "a length without end": (armor(GOOD[:10] + b"\xff\xff\xff\xff" + GOOD[14:]), "ends inside the public key"),
    "no flags": (armor(_inner(PROPER)), "ends inside the flags"),
    "no counter": (armor(_inner(PROPER + b"\x01")), "ends inside the counter"),
    "more after the counter": (armor(_inner(PROPER + struct.pack(">BI", 1, 1) + b"\x01")), "1 bytes after"),
    "a plain signature of a security key": (armor(_inner(text(b"ssh-ed25519") + text(b"s" * 64))), "not supported"),
    "an unknown security key": (
        armor(sshsig(text(b"sk-new@openssh.com"), "n", text(b"sk-new@openssh.com") + text(b""))), "not supported",
    ),
    "a security key's signature of a plain key": (
        armor(sshsig(text(b"ssh-ed25519") + text(CA.public), "n", text(SK_ED25519.encode()))), "not supported",
    ),
    "an unknown certificate": (armor(sshsig(text(b"new-cert-v01@openssh.com"), "n", text(b"new"))), "not supported"),
    "a kind that is no name": (armor(sshsig(text(b"sk ssh\n"), "n", text(b"x"))), "is not a name"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(DAMAGED))
def test_a_damaged_signature_is_refused_with_the_reason(asked, name):
    path, _ = asked
    content, reason = DAMAGED[name]
    path.with_name("ask.json.sig").write_bytes(content)
    error = refused(path, f"me {ED25519.line}")
    assert error.code == "approval.bad_signature"
    assert reason in error.seen
    assert f"-f KEY {path}" in error.hint


@given(st.binary(max_size=400))
def test_any_bytes_are_parsed_or_refused(data):
    for content in (data, armor(data), armor(b"SSHSIG\0\0\0\x01" + data), armor(sshsig(ED25519.blob, "n", data))):
        try:
            parsed = parse_signature(content)
        except SignatureError:
            continue
        assert parse_signature(parsed.armored) == parsed


@given(st.integers(0, len(CERTIFIED) - 1), st.integers(1, 255))
def test_a_changed_byte_never_turns_a_security_key_into_a_plain_one(at, change):
    blob = bytearray(CERTIFIED)
    blob[at] ^= change
    try:
        parsed = parse_signature(armor(bytes(blob)))
    except SignatureError:
        return
    assert parsed.flags is not None
    assert parsed.algorithm == SK_ED25519


# ---------------------------------------------------------------- the signers file


@pytest.mark.parametrize(
    "line",
    ['"me verify-required ssh-ed25519 AAAA', 'me verify-required,namespaces="x ssh-ed25519 AAAA', "me verify-required"],
)
def test_a_line_with_our_options_that_cannot_be_parsed_is_named(asked, line):
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT))
    with pytest.raises(UserError) as caught:
        signed(path, signers(path, f"me {ED25519.line}\n{line}"))
    assert caught.value.code == "approval.bad_signers"
    assert "line 2" in caught.value.message


def test_a_signer_with_a_space_in_the_name_is_known(asked):
    path, data = asked
    put(path, ED25519.sign(data, approve.NAMESPACE, PRESENT | VERIFIED))
    for options in ("", "verify-required "):
        assert signed(path, signers(path, f'"me too" {options}{ED25519.line}')).by == "me too"


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_lines_without_our_options_reach_ssh_keygen_as_they_are(content):
    try:
        parsed = parse_signers(content)
    except SignersError:
        assert "-required" in content.lower()
        return
    if "-required" not in content.lower():
        assert parsed.plain == content


OPTIONS = (
    "verify-required", "no-touch-required", 'namespaces="a,verify-required b"', 'valid-after="20200101"',
    "cert-authority",
)  # fmt: skip


@given(st.lists(st.sampled_from(OPTIONS), min_size=1, unique=True))
def test_our_options_are_taken_out_and_the_others_stay(options):
    parsed = parse_signers(f"me {','.join(options)} {ED25519.line} a comment")
    kept = [option for option in options if not option.endswith("-required")]
    assert parsed.plain.split(" ", 1)[1] == " ".join([*([",".join(kept)] if kept else []), ED25519.line, "a comment"])
    (signer,) = parsed.signers
    assert signer.key == ED25519.blob
    assert set(signer.options) == {option for option in options if option.endswith("-required")}
    assert signer.cert_authority == ("cert-authority" in options)
