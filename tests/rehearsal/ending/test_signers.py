"""Which keys may approve: a person allows one on a terminal; a line in a file allows none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from tests.support.front import Front, front
from tests.support.screens import Session
from tests.support.security_key import PRESENT, Ed25519SecurityKey, armor
from tests.support.vendors import vendors

KEY, OTHER = Ed25519SecurityKey(), Ed25519SecurityKey(b"o" * 32)
LINE = 'me namespaces="leasehold-approval"'
pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="no ssh-keygen here (Debian: apt-get install openssh-client)"
)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody who holds this machine, with a request to end that."""
    with front(tmp_path) as made:
        home = Home(made.home, tmp_path / "config")
        books.open_lease(home.ledger, "local", "local", str(made.box_root), "")
        home.ledger.close()
        asked = made.lease("down", "local", "--request", "ask.json")
        assert asked.code == 0, asked.said
        made.write("key.pub", KEY.line + " somebody@somewhere\n")
        yield made


def approve(person: Front, key: Ed25519SecurityKey = KEY) -> tuple[int, str]:
    request = person.project / "ask.json"
    request.with_name("ask.json.sig").write_bytes(armor(key.sign(request.read_bytes(), "leasehold-approval", PRESENT)))
    done = person.lease("down", "local", "--approval", "ask.json")
    return done.code, done.said


def allow(person: Front, words: str = "add key.pub --name me") -> str:
    return Session(person, "unused").type(f"lease signer {words}", ("type exactly", "allow me"))


def listed(person: Front) -> list[tuple[str, bool]]:
    found = json.loads(person.lease("signer", "list", "--json").out)["signers"]
    return [(one["name"], one["allowed"]) for one in found]


def refused_unconfirmed(person: Front) -> str:
    code, said = approve(person)
    assert code == 3 and "error[approval.signer_not_confirmed]" in said, said
    assert not person.events("intent_recorded")
    (named,) = set(re.findall(r"lease signer confirm (SHA256:\S+)", said))
    return named


def test_a_line_put_into_the_file_allows_nothing_until_it_is_confirmed(person: Front) -> None:
    (person.home / "allowed_signers").write_text(f"{LINE} {KEY.line}\n")
    fingerprint = refused_unconfirmed(person)
    assert listed(person) == [("me", False)]
    assert "NOT allowed: nobody confirmed line 1" in person.lease("signer", "list").out

    assert person.lease("signer", "confirm", fingerprint).code == 3, "no terminal, no yes"
    assert not person.events("signer_allowed")
    assert fingerprint in allow(person, f"confirm {fingerprint}")
    assert listed(person) == [("me", True)]
    code, said = approve(person)
    assert code == 0, said
    assert re.search(r"approved by me, signed with the .* key SHA256:.*, allowed since 20\d\d-", said)
    (intent,) = person.events("intent_recorded")
    assert intent["key"]["fingerprint"] == fingerprint and intent["key"]["since_unix"] > 0


def test_an_allowed_line_that_was_edited_is_refused(person: Front) -> None:
    assert "allowed: me" in allow(person, "add key.pub --name me --verify-required")
    file = person.home / "allowed_signers"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(file.read_text().replace(",verify-required", ""))
    refused_unconfirmed(person)


def test_a_key_that_stands_beside_an_allowed_one_is_not_allowed(person: Front) -> None:
    allow(person)
    with open(person.home / "allowed_signers", "a") as file:
        file.write(f"{LINE} {OTHER.line}\n")
    code, said = approve(person, OTHER)
    assert code == 3 and "error[approval.signer_not_confirmed]" in said, said
    code, said = approve(person)
    assert code == 0, said


def test_a_removed_key_approves_nothing_even_if_its_line_comes_back(person: Front) -> None:
    allow(person)
    file = person.home / "allowed_signers"
    kept = file.read_text()
    assert person.lease("signer", "remove", "me").code == 0
    assert KEY.line not in file.read_text()
    code, said = approve(person)
    assert code == 3 and "error[approval.unknown_signer]" in said, said
    file.write_text(kept)
    refused_unconfirmed(person)


def test_without_a_typed_yes_nothing_is_written(person: Front) -> None:
    done = person.lease("signer", "add", "key.pub")
    assert done.code == 3 and "error[approval.no_terminal]" in done.said, done.said
    said = Session(person, "unused").type("lease signer add key.pub --name me", ("type exactly", "allow you"), code=3)
    assert "no key was allowed" in said
    assert not (person.home / "allowed_signers").exists()
    assert not person.events("signer_allowed")


def test_who_may_approve_is_announced(person: Front) -> None:
    with vendors() as server:
        url = server.channel("webhook")["url"]
        assert person.lease("notify", "add", "webhook", url).code == 0
        assert "announced on 1 notice channel" in allow(person)
        (heard,) = [seen.body.decode() for seen in server.seen]
        assert "may approve from now on" in heard and "SHA256:" in heard
        assert person.lease("signer", "remove", "me").code == 0
        assert "may no longer approve" in server.seen[-1].body.decode()


def test_a_channel_that_takes_nothing_is_named(person: Front) -> None:
    assert person.lease("notify", "add", "webhook", "http://127.0.0.1:9/x").code == 0
    said = allow(person)
    assert "not announced on webhook" in said and "allowed: me" in said
