"""Mail, to a real server on the loopback: private lines, log-ins, refusals. Runs under PyPy too."""

from __future__ import annotations

import email
import email.policy
import shutil
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from leasehold.caretaker.notices.send import send
from tests.support.mail_server import MailServer, certificate, mail_server

MESSAGE = {"id": "toy-7", "title": "训练 failed\r\nBcc: evil@example.org", "text": "Why:\n.\nout of memory 训练"}

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def trusted(pair: Tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Tuple[Path, Path]:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[1]))
    return pair


def channel(bed: MailServer, **fields: str) -> Dict[str, str]:
    user, password = bed.login
    known = {"kind": "smtp", "host": "localhost", "port": str(bed.port), "to": "a@example.org, b@example.org"}
    return {**known, "user": user, "password": password, **fields}


def try_send(one: Dict[str, str]) -> Dict[str, Any]:
    return send(one, MESSAGE, lambda seconds: None)


@pytest.mark.parametrize("security", ["starttls", "ssl"])
def test_a_mail_goes_over_a_private_line_after_a_log_in(trusted: Tuple[Path, Path], security: str) -> None:
    with mail_server(trusted, at_once=security == "ssl") as bed:
        assert try_send(channel(bed, security=security))["problem"] == ""
    (letter,) = bed.letters
    assert letter.private and letter.user == "me@example.org"
    assert letter.to == ("a@example.org", "b@example.org")


def test_the_letter_is_whole_and_its_title_adds_no_header(trusted: Tuple[Path, Path]) -> None:
    with mail_server(trusted) as bed:
        try_send(channel(bed))
    read = email.message_from_string(bed.letters[0].text, policy=email.policy.default)
    assert read["Subject"] == "训练 failed Bcc: evil@example.org"
    assert read["Bcc"] is None and read["Message-ID"] == "<toy-7@leasehold.invalid>"
    assert read.get_content().split() == ["Why:", ".", "out", "of", "memory", "训练"]


def test_a_server_without_starttls_gets_no_password() -> None:
    with mail_server() as bed:
        problem = try_send(channel(bed))["problem"]
    assert "STARTTLS" in problem and bed.letters == []


def test_a_server_that_nobody_vouches_for_gets_no_password(pair: Tuple[Path, Path]) -> None:
    with mail_server(pair) as bed:
        problem = try_send(channel(bed))["problem"]
    assert "certificate" in problem.lower() and bed.letters == []


def test_an_open_line_carries_a_mail_but_no_password() -> None:
    with mail_server() as bed:
        assert "open line" in try_send(channel(bed, security="none"))["problem"]
        assert try_send(channel(bed, security="none", password=""))["problem"] == ""
    assert len(bed.letters) == 1


def test_a_refused_log_in_is_said_without_the_password(trusted: Tuple[Path, Path]) -> None:
    with mail_server(trusted) as bed:
        problem = try_send(channel(bed, password="wrong-password"))["problem"]
    assert "535" in problem and "wrong-password" not in problem


@pytest.mark.parametrize(("said", "says"), [("550 5.1.1 no such user", "550"), ("451 greylisted", "451")])
def test_a_refused_recipient_is_said(trusted: Tuple[Path, Path], said: str, says: str) -> None:
    with mail_server(trusted) as bed:
        bed.refuse = said
        assert says in try_send(channel(bed))["problem"]


def test_nobody_there_is_said() -> None:
    assert try_send({"kind": "smtp", "host": "127.0.0.1", "port": "1", "to": "a@example.org"})["problem"]
