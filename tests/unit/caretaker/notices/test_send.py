"""Senders, against loopback servers that judge as the vendors do. Runs under PyPy too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from leasehold.caretaker.notices.send import TRIES, send
from leasehold.kit.tables.notice_channels import KINDS, secrets_of
from tests.support.vendors import SECRET, TOKEN, Said, Vendors, as_json, vendors

MESSAGE = {"id": "toy-7", "title": "toy failed #7", "text": "训练 failed <@all> & more", "priority": "high"}
SIGNED = {"feishu": {"secret": SECRET}, "dingtalk": {"secret": SECRET}}
BY_HTTP = [name for name in KINDS if name != "smtp"]
CODED = ["telegram", "feishu", "dingtalk", "wecom"]


@pytest.fixture
def bed() -> Iterator[Vendors]:
    with vendors() as found:
        yield found


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class Pauses:
    """Stands in for sleeping, and remembers."""

    def __init__(self) -> None:
        self.taken: List[float] = []

    def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def channel(bed: Vendors, kind: str, **fields: str) -> Dict[str, str]:
    return bed.channel(kind, **{**SIGNED.get(kind, {}), **fields})


def try_send(one: Dict[str, Any], message: Dict[str, Any] = MESSAGE) -> Dict[str, Any]:
    return send(one, message, Pauses())


# ---------------------------------------------------------------- what the vendors take


@pytest.mark.parametrize("kind", BY_HTTP)
def test_every_vendor_takes_what_we_send(bed: Vendors, kind: str) -> None:
    assert try_send(channel(bed, kind)) == {"problem": "", "wait_s": 0.0}
    assert len(bed.seen) == 1


@pytest.mark.parametrize("kind", BY_HTTP)
@pytest.mark.parametrize("filler", ["x", "训练", "😀", '"\\\n', "<&>"])
def test_a_text_beyond_every_limit_is_cut_and_taken(bed: Vendors, kind: str, filler: str) -> None:
    long = dict(MESSAGE, text=filler * 30000 if kind != "webhook" else filler * 5000)
    assert try_send(channel(bed, kind), long)["problem"] == ""


def test_ntfy_gets_title_priority_and_token_as_headers(bed: Vendors) -> None:
    try_send(channel(bed, "ntfy", token="tk_abcdef123"))
    (seen,) = bed.seen
    assert (seen.headers["Title"], seen.headers["Priority"]) == ("toy failed #7", "high")
    assert seen.headers["Authorization"] == "Bearer tk_abcdef123"
    assert seen.body.decode("utf-8") == MESSAGE["text"]


def test_a_title_beyond_ascii_is_encoded_and_cannot_add_headers(bed: Vendors) -> None:
    try_send(channel(bed, "ntfy"), dict(MESSAGE, title="训练\r\nX-Evil: 1"))
    assert bed.seen[0].headers["Title"].startswith("=?UTF-8?B?")
    assert "X-Evil" not in bed.seen[0].headers


def test_a_webhook_gets_the_whole_message(bed: Vendors) -> None:
    one = dict(channel(bed, "webhook"), url=bed.address + "/hook?key=a b&x=训")
    try_send(one)
    assert bed.seen[0].path == "/hook?key=a%20b&x=%E8%AE%AD"
    assert bed.seen[0].value == MESSAGE


@pytest.mark.parametrize("kind", ["slack", "feishu", "wecom"])
def test_text_from_the_box_cannot_call_everybody(bed: Vendors, kind: str) -> None:
    text = 'lost <!channel> <@all> <at user_id="all"></at>'
    try_send(channel(bed, kind), dict(MESSAGE, text=text))
    body = json.dumps(bed.seen[0].value, ensure_ascii=False)
    assert "<!" not in body or kind != "slack"
    assert "<@" not in body or kind != "wecom"
    assert "<at" not in body or kind != "feishu"


# ---------------------------------------------------------------- refusals inside an HTTP 200


@pytest.mark.parametrize("kind", ["feishu", "dingtalk"])
def test_a_wrong_signature_is_a_failure_though_the_answer_is_200(bed: Vendors, kind: str) -> None:
    went = try_send(channel(bed, kind, secret="SECwrongwrong"))
    assert ("19021" if kind == "feishu" else "310000") in went["problem"]
    assert len(bed.seen) == 1, "asking again with the same key helps nobody"


def test_a_wrong_key_of_a_wecom_robot_is_a_failure(bed: Vendors) -> None:
    went = try_send(dict(channel(bed, "wecom"), url=bed.address + "/cgi-bin/webhook/send?key=wrong-wrong"))
    assert went["problem"] == "errcode 93000: invalid webhook url"


def test_a_wrong_bot_token_is_a_failure(bed: Vendors) -> None:
    went = try_send(channel(bed, "telegram", token="999:wrong-token"))
    assert went["problem"] == "error 401: Unauthorized"


@pytest.mark.parametrize("kind", [*CODED, "slack"])
@pytest.mark.parametrize("page", [b"<html>please log in</html>", b"", b"[]", b'"ok"', b"{}"])
def test_a_login_page_is_not_an_answer_of_the_vendor(bed: Vendors, kind: str, page: bytes) -> None:
    bed.first.append(Said(200, page))
    assert try_send(channel(bed, kind))["problem"]


# ---------------------------------------------------------------- again, later, never


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_server_in_trouble_is_asked_again(bed: Vendors, status: int) -> None:
    bed.first += [Said(status, b"")] * 2
    pauses = Pauses()
    assert send(channel(bed, "webhook"), MESSAGE, pauses)["problem"] == ""
    assert pauses.taken == [1.0, 4.0]


def test_tries_are_bounded(bed: Vendors) -> None:
    bed.first += [Said(503, b"")] * 50
    assert "HTTP 503" in try_send(channel(bed, "webhook"))["problem"]
    assert len(bed.seen) == TRIES


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_refusal_is_not_asked_again(bed: Vendors, status: int) -> None:
    bed.first.append(Said(status, b"no_service"))
    assert try_send(channel(bed, "slack"))["problem"].endswith(": no_service")
    assert len(bed.seen) == 1


def test_retry_after_is_waited_for(bed: Vendors) -> None:
    bed.first.append(Said(429, b"", (("Retry-After", "7"),)))
    pauses = Pauses()
    assert send(channel(bed, "slack"), MESSAGE, pauses)["problem"] == ""
    assert pauses.taken == [7.0]


def test_a_long_retry_after_is_handed_on(bed: Vendors) -> None:
    bed.first.append(Said(429, b"", (("Retry-After", "600"),)))
    went = try_send(channel(bed, "ntfy"))
    assert went["wait_s"] == 600.0 and len(bed.seen) == 1


HURRIED = [
    ("telegram", {"ok": False, "error_code": 429, "parameters": {"retry_after": 35}}, 429, 35.0),
    ("feishu", {"code": 11232, "msg": "frequency limited"}, 200, 60.0),
    ("dingtalk", {"errcode": 130101, "errmsg": "send too fast"}, 200, 600.0),
    ("wecom", {"errcode": 45009, "errmsg": "api freq out of limit"}, 200, 60.0),
]


@pytest.mark.parametrize(("kind", "value", "status", "wait_s"), HURRIED)
def test_a_vendor_that_wants_patience_gets_it(
    bed: Vendors, kind: str, value: Dict[str, Any], status: int, wait_s: float
) -> None:
    bed.first.append(as_json(value, status))
    assert try_send(channel(bed, kind))["wait_s"] == wait_s


# ---------------------------------------------------------------- secrets


def test_a_redirect_is_not_followed_to_another_host(bed: Vendors) -> None:
    with vendors() as elsewhere:
        for status in (301, 302, 303, 307, 308):
            bed.first.append(Said(status, b"", (("Location", elsewhere.address + "/take"),)))
            went = try_send(channel(bed, "ntfy", token="tk_abcdef123"))
            assert "points to another address" in went["problem"]
        assert elsewhere.seen == []


@pytest.mark.parametrize("kind", BY_HTTP)
def test_no_part_of_a_secret_is_in_what_went_wrong(bed: Vendors, kind: str) -> None:
    one = channel(bed, kind, **({"token": TOKEN} if kind in ("ntfy", "webhook") else {}))
    for answer in ("echo", "refused"):
        if answer == "echo":
            everything = " ".join([*secrets_of(one), *(word for word in one["url"].split("/"))])
            bed.first.append(Said(403, (" " * 180 + everything).encode("utf-8")))  # cut at any place
            problem = try_send(one)["problem"]
        else:
            problem = try_send(dict(one, url=one["url"].replace(bed.address, "http://127.0.0.1:1")))["problem"]
        assert problem
        for word in ("-secret", KINDS[kind].name + "-secret", SECRET, TOKEN, "0ec2sifa5aaa"):
            assert word not in problem


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/secret-path", "not an address", "http://[bad/secret-path"]
)
def test_an_odd_address_is_a_failure_and_not_repeated(url: str) -> None:
    problem = try_send({"kind": "webhook", "url": url})["problem"]
    assert problem and "passwd" not in problem and "secret-path" not in problem


def test_an_unknown_kind_and_a_missing_field_are_failures() -> None:
    assert try_send({"kind": "pigeon"})["problem"] == "unknown kind of channel: pigeon"
    assert try_send({"kind": "telegram", "token": "1:aaaaaaaa"})["problem"].startswith("KeyError")


# ---------------------------------------------------------------- the door


def door(body: bytes, **environment: str) -> subprocess.CompletedProcess:  # type: ignore[type-arg]
    sources = str(Path(__file__).resolve().parents[4] / "src")
    code = "import sys; sys.path.insert(0, %r); from leasehold.caretaker.entry import main; sys.exit(main(['notice']))"
    return subprocess.run(
        [sys.executable, "-c", code % sources], input=body, stdout=subprocess.PIPE, timeout=60, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_the_door_sends_each_message_to_its_channel_and_says_how_it_went(bed: Vendors) -> None:
    good, bad = channel(bed, "webhook"), channel(bed, "telegram", token="999:wrong-token")
    done = door(json.dumps({"sends": [{"channel": one, "message": MESSAGE} for one in (good, bad)]}).encode("utf-8"))
    results = json.loads(done.stdout)["results"]
    assert [bool(result["problem"]) for result in results] == [False, True]
    assert done.returncode == 1


def test_the_proxy_of_the_environment_is_used(bed: Vendors) -> None:
    one = {"kind": "webhook", "url": "http://nowhere.invalid/hook"}
    body = json.dumps({"sends": [{"channel": one, "message": MESSAGE}]}).encode("utf-8")
    done = door(body, http_proxy=bed.address, no_proxy="", NO_PROXY="")
    assert done.returncode == 0
    assert bed.seen[0].path == "http://nowhere.invalid/hook"
