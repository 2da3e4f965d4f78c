"""How a person says yes: typed exactly, or signed with a key this home allows. Uses the real ssh-keygen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leasehold.errors import HomeError, Refusal, UserError
from leasehold.gates.end.teardown import RunReadings, TeardownReadings
from leasehold.kit.files.canonical_json import canonical
from leasehold.lifecycle.approval import approve
from leasehold.lifecycle.approval.allowed_signers import mark_of
from leasehold.model.run.receipt import APPROVAL_LIFE_S, Approval, Strength

READINGS = TeardownReadings("box-1", "terminate", True, (RunReadings("toy-1", ("main",)),))
needs_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="no ssh-keygen here (Debian: apt-get install openssh-client)"
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two keys: mine, which the home allows, and another's."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "other"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@home", "-f", str(folder / name)]
        subprocess.run(made, check=True, capture_output=True)
    return folder


@pytest.fixture
def signers(keys, tmp_path):
    """The home's allowed_signers: mine, for approvals only."""
    path = tmp_path / "allowed_signers"
    public = (keys / "mine.pub").read_text().split()[:2]
    path.write_text(f'me@home namespaces="leasehold-approval" {" ".join(public)}\n')
    return path


@pytest.fixture
def asked(tmp_path):
    """A request as `lease down --request` writes it."""
    request = approve.new_request(READINGS)
    path = tmp_path / "ask.json"
    approve.write_request(request, path)
    return request, path


def signed(path: Path, file: Path) -> Approval:
    """Check a signature where every line of the file was enrolled."""
    text = file.read_text(errors="surrogateescape") if file.exists() else ""
    return approve.signed(path, file, {mark_of(line.strip()): 1.0 for line in text.split("\n")})


def sign(path: Path, key: Path, namespace: str = approve.NAMESPACE) -> None:
    path.with_name(path.name + ".sig").unlink(missing_ok=True)
    signing = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", str(key), str(path)]
    subprocess.run(signing, check=True, capture_output=True)


# ---------------------------------------------------------------- requests


def test_a_request_names_the_act_and_dies_in_fifteen_minutes():
    before = time.time()
    request = approve.new_request(READINGS)
    assert (request.verb, request.lease, request.evidence) == ("terminate", "box-1", READINGS.evidence)
    assert int(before) + APPROVAL_LIFE_S <= request.expires_unix <= time.time() + APPROVAL_LIFE_S
    assert approve.new_request(READINGS).nonce != request.nonce


def test_a_request_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(HomeError) as caught:
        approve.write_request(approve.new_request(READINGS), tmp_path / "none" / "ask.json")
    assert caught.value.code == "approval.unwritable"


# ---------------------------------------------------------------- signed


@needs_keygen
def test_a_good_signature_is_a_yes(keys, signers, asked):
    request, path = asked
    sign(path, keys / "mine")
    approval = signed(path, signers)
    assert approval.request == request
    assert (approval.strength, approval.by) == (Strength.SIGNED, "me@home")


@needs_keygen
def test_a_request_may_lie_anywhere(keys, signers, tmp_path, odd_name):
    path = tmp_path / f"d{odd_name}" / f"{odd_name}.json"
    path.parent.mkdir()
    approve.write_request(approve.new_request(READINGS), path)
    sign(path, keys / "mine")
    assert signed(path, signers).strength is Strength.SIGNED


@needs_keygen
def test_another_key_is_nobodys_yes(keys, signers, asked):
    _, path = asked
    sign(path, keys / "other")
    with pytest.raises(Refusal) as caught:
        signed(path, signers)
    assert caught.value.code == "approval.unknown_signer"


@needs_keygen
@pytest.mark.parametrize(
    "change", [{"lease": "box-2"}, {"verb": "park"}, {"expires_unix": 2_000_000_000}, {"nonce": "x"}]
)
def test_a_request_changed_after_signing_is_refused(keys, signers, asked, change):
    request, path = asked
    sign(path, keys / "mine")
    path.write_bytes(canonical({**request.as_dict(), **change}) + b"\n")
    with pytest.raises(Refusal) as caught:
        signed(path, signers)
    assert caught.value.code == "approval.bad_signature"


@needs_keygen
@pytest.mark.parametrize("namespace", ["git", "file", "leasehold-approval2", "leasehold"])
def test_a_signature_for_something_else_is_no_yes(keys, signers, asked, namespace):
    """A key signs commits too: that must never open a teardown."""
    _, path = asked
    sign(path, keys / "mine", namespace)
    with pytest.raises(Refusal):
        signed(path, signers)


@needs_keygen
def test_a_signature_for_something_else_is_no_yes_though_all_are_allowed(keys, signers, asked):
    signers.write_text("me@home " + (keys / "mine.pub").read_text())
    _, path = asked
    sign(path, keys / "mine", "git")
    with pytest.raises(Refusal):
        signed(path, signers)
    sign(path, keys / "mine")
    assert signed(path, signers).by == "me@home"


@needs_keygen
def test_a_key_that_may_only_sign_commits_is_refused(keys, signers, asked):
    signers.write_text(signers.read_text().replace("leasehold-approval", "git"))
    _, path = asked
    sign(path, keys / "mine")
    with pytest.raises(Refusal):
        signed(path, signers)


@needs_keygen
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"]
)
def test_a_signature_that_is_none_is_refused(keys, signers, asked, content):
    _, path = asked
    path.with_name(path.name + ".sig").write_bytes(content)
    with pytest.raises(Refusal):
        signed(path, signers)


@needs_keygen
def test_the_signature_of_another_request_is_refused(keys, signers, asked, tmp_path):
    _, path = asked
    other = tmp_path / "other.json"
    approve.write_request(approve.new_request(READINGS), other)
    sign(other, keys / "mine")
    other.with_name("other.json.sig").rename(path.with_name("ask.json.sig"))
    with pytest.raises(Refusal) as caught:
        signed(path, signers)
    assert caught.value.code == "approval.bad_signature"


@needs_keygen
def test_a_request_swapped_while_it_is_checked_is_refused(keys, signers, asked, monkeypatch):
    """What was signed and what is acted on must be the same bytes, read once."""
    request, path = asked
    sign(path, keys / "mine")
    signed_bytes = path.read_bytes()
    path.write_bytes(canonical({**request.as_dict(), "lease": "box-2"}) + b"\n")
    real = approve._principal

    def swapping(*args):
        path.write_bytes(signed_bytes)
        return real(*args)

    monkeypatch.setattr(approve, "_principal", swapping)
    with pytest.raises(Refusal):
        signed(path, signers)


@needs_keygen
def test_without_ssh_keygen_nothing_is_checked_and_that_is_said(keys, signers, asked, tmp_path, monkeypatch):
    _, path = asked
    sign(path, keys / "mine")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(HomeError) as caught:
        signed(path, signers)
    assert caught.value.code == "approval.no_keygen"


def test_without_a_signature_the_way_to_make_one_is_said(signers_file_only, asked):
    _, path = asked
    with pytest.raises(UserError) as caught:
        signed(path, signers_file_only)
    assert caught.value.code == "approval.unsigned"
    assert "ssh-keygen -Y sign -n leasehold-approval" in caught.value.hint


@pytest.fixture
def signers_file_only(tmp_path):
    (tmp_path / "signers").write_text("")
    return tmp_path / "signers"


def test_without_signers_the_way_to_enrol_one_is_said(tmp_path, asked):
    _, path = asked
    path.with_name("ask.json.sig").write_text("x")
    with pytest.raises(UserError) as caught:
        signed(path, tmp_path / "none")
    assert caught.value.code == "approval.no_signers"
    assert "lease signer add" in caught.value.hint


GOOD = approve.new_request(READINGS).as_dict()
UNREADABLE = {
    "empty": b"",
    "no json": b"{",
    "a list": b"[]",
    "a number": b"7",
    "no schema": canonical({key: GOOD[key] for key in GOOD if key != "schema"}),
    "another schema": canonical({**GOOD, "schema": "leasehold.approval/2"}),
    "a key too many": canonical({**GOOD, "extra": 1}),
    "a key too few": canonical({key: GOOD[key] for key in GOOD if key != "verb"}),
    "an end that is text": canonical({**GOOD, "expires_unix": "tomorrow"}),
    "an end without end": canonical({**GOOD, "expires_unix": 1}).replace(b":1,", b":Infinity,"),
    "an end at no time": canonical({**GOOD, "expires_unix": 1}).replace(b":1,", b":NaN,"),
    "a verb that is none": canonical({**GOOD, "verb": None}),
    "in other words": json.dumps(GOOD, indent=1).encode(),
    "too deep": b"[" * 100000,
}


@pytest.mark.parametrize("content", list(UNREADABLE.values()), ids=list(UNREADABLE))
def test_a_file_that_is_no_request_is_refused_before_its_signature(tmp_path, content):
    (tmp_path / "ask.json").write_bytes(content + b"\n")
    (tmp_path / "ask.json.sig").write_text("x")
    (tmp_path / "signers").write_text("x")
    with pytest.raises(UserError) as caught:
        signed(tmp_path / "ask.json", tmp_path / "signers")
    assert caught.value.code == "approval.unreadable"


def test_a_request_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError) as caught:
        signed(tmp_path / "none.json", tmp_path / "signers")
    assert caught.value.code == "approval.unreadable"


# ---------------------------------------------------------------- typed and rehearsed


def test_the_exact_phrase_is_a_yes():
    heard = []
    request = approve.new_request(READINGS)
    approval = approve.typed(request, "terminate box-1", lambda question: heard.append(question) or "terminate box-1\n")
    assert (approval.request, approval.strength) == (request, Strength.TYPED)
    assert "terminate box-1" in heard[0]


@pytest.mark.parametrize(
    "answer", ["", "y", "yes", "terminate", "Terminate box-1", "terminate  box-1", "terminate box-12"]
)
def test_anything_else_is_a_no(answer):
    with pytest.raises(Refusal) as caught:
        approve.typed(approve.new_request(READINGS), "terminate box-1", lambda question: answer)
    assert caught.value.code == "approval.not_given"


def test_a_rehearsed_yes_says_what_it_is():
    assert approve.rehearsed(approve.new_request(READINGS)).strength is Strength.REHEARSAL


def test_a_pipe_cannot_answer_for_a_person():
    """Whatever comes on stdin: without a controlling terminal there is nobody to ask."""
    code = (
        "from leasehold.lifecycle.approval.phrase import terminal_ask\n"
        "from leasehold.errors import Refusal\n"
        "try:\n    print('answered', terminal_ask('? '))\n"
        "except Refusal as error:\n    print(error.code)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], input="terminate box-1\n", capture_output=True, text=True, start_new_session=True,
        check=True, timeout=30,
    )  # fmt: skip
    assert said.stdout.strip() == "approval.no_terminal"
