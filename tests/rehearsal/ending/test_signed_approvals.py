"""`lease down --request`, a signature, `lease down --approval`: through the command line, on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from tests.support.front import Front, front
from tests.support.screens import Session
from tests.support.security_key import PRESENT, SK_ED25519, VERIFIED, Ed25519SecurityKey, armor

KEY = Ed25519SecurityKey()
pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="no ssh-keygen here (Debian: apt-get install openssh-client)"
)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody who holds this machine and has a request to end that."""
    with front(tmp_path) as made:
        home = Home(made.home, tmp_path / "config")
        books.open_lease(home.ledger, "local", "local", str(made.box_root), "")
        home.ledger.close()
        asked = made.lease("down", "local", "--request", "ask.json")
        assert asked.code == 0, asked.said
        yield made


def enrol(person: Front, options: str) -> None:
    person.write("key.pub", KEY.line + "\n")
    (person.home / "allowed_signers").unlink(missing_ok=True)
    demands = "--verify-required" if options else ""
    said = Session(person, "unused").type(f"lease signer add key.pub --name me {demands}", ("type exactly", "allow me"))
    assert "proves a touch" in said and "allowed: me, " in said


def approve(person: Front, flags: int, options: str = "") -> tuple[int, str]:
    enrol(person, options)
    request = person.project / "ask.json"
    signature = KEY.sign(request.read_bytes(), "leasehold-approval", flags)
    request.with_name("ask.json.sig").write_bytes(armor(signature))
    done = person.lease("down", "local", "--approval", "ask.json")
    return done.code, done.said


def test_only_a_touched_security_key_takes_a_lease_down(person):
    code, said = approve(person, 0)
    assert code == 3, said
    assert "error[approval.not_touched]" in said
    assert not person.events("intent_recorded")
    assert not person.events("lease_closed")

    code, said = approve(person, PRESENT, ",verify-required")
    assert code == 3, said
    assert "error[approval.not_verified]" in said
    assert not person.events("intent_recorded")

    code, said = approve(person, PRESENT | VERIFIED, ",verify-required")
    assert code == 0, said
    assert f"approved by me, signed with the {SK_ED25519} key SHA256:" in said
    assert "allowed since 20" in said
    (intent,) = person.events("intent_recorded")
    assert (intent["key"]["kind"], intent["key"]["flags"]) == (SK_ED25519, PRESENT | VERIFIED)
    assert person.events("lease_closed")
