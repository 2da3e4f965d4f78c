"""The door: what is repeated, what is not, and what an answer that never came means."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from decimal import Decimal

import pytest

from leasehold.errors import AnswerLost, LandlordDown, LandlordError, TooFast, UserError
from leasehold.platforms.landlords.http import Ask, Door, Kind
from tests.fakes.landlords.clock import VirtualClock
from tests.support.ports import free_ports
from tests.support.web import Asked, Handler, Web

KEY = "secret-key-9876543210"


@pytest.fixture
def web() -> Iterator[Web]:
    """A server that answers as told."""
    web = Web()
    yield web
    web.close()


def _door(base: str, clock: VirtualClock | None = None) -> Door:
    clock = clock or VirtualClock()
    return Door("Acme", base, {"Authorization": f"Bearer {KEY}"}, clock=clock, sleep=clock.pass_s, timeout_s=10)


def _says(web: Web, status: int, body: bytes, **headers: str) -> str:
    web.reply("/x", lambda handler, asked: handler.plain(status, body, **headers))
    return web.base


def test_the_key_goes_into_a_header_only(web: Web) -> None:
    _door(_says(web, 200, b"{}")).send(Ask("GET", "/x", {"a": "b c"}))
    assert web.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(web.asked[0].path) + str(web.asked[0].query)


def test_a_key_never_leaves_in_the_clear() -> None:
    with pytest.raises(UserError, match="in the clear"):
        _door("http://api.example.org")


def test_a_redirect_is_not_followed(web: Web) -> None:
    elsewhere = web.reply("/elsewhere", lambda handler, asked: handler.plain(200, b"{}"))
    with pytest.raises(LandlordDown, match="redirects"):
        _door(_says(web, 301, b"", Location=elsewhere)).send(Ask("GET", "/x"))
    assert "/elsewhere" not in web.paths()


def test_a_key_that_the_answer_echoes_is_not_shown(web: Web) -> None:
    body = f'{{"detail": "bad key {KEY}"}}'.encode()
    reply = _door(_says(web, 401, body)).send(Ask("GET", "/x"))
    assert "bad key" in reply.text
    assert KEY not in reply.text


def test_the_door_does_not_show_its_key() -> None:
    assert KEY not in repr(_door("https://api.example.org"))


def test_escapes_in_an_answer_do_not_reach_a_terminal(web: Web) -> None:
    reply = _door(_says(web, 400, b'{"detail": "\\u001b[31mred\\u001b[0m \\u6682"}')).send(Ask("GET", "/x"))
    assert "\x1b" not in reply.text
    assert "暂" in reply.text


@pytest.mark.parametrize("kind", list(Kind))
def test_a_server_that_refuses_the_connection_carried_out_nothing(kind: Kind) -> None:
    door = _door(f"http://127.0.0.1:{free_ports(1)}")
    with pytest.raises(LandlordDown):
        door.send(Ask("POST", "/x", body={}, kind=kind))


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.ACT])
@pytest.mark.parametrize("status", [500, 502, 503, 408])
def test_a_failure_after_a_request_left_leaves_it_unknown(web: Web, kind: Kind, status: int) -> None:
    with pytest.raises(AnswerLost):
        _door(_says(web, status, b"<html>")).send(Ask("GET", "/x", kind=kind))
    assert len(web.asked) == 1


def test_a_connection_cut_in_the_answer_leaves_it_unknown(web: Web) -> None:
    web.reply("/x", lambda handler, asked: handler.reset())
    with pytest.raises(AnswerLost):
        _door(web.base).send(Ask("GET", "/x", kind=Kind.CREATE))
    assert len(web.asked) == 1


def test_a_success_that_is_not_json_leaves_it_unknown(web: Web) -> None:
    with pytest.raises(AnswerLost):
        _door(_says(web, 200, b"<html>")).send(Ask("GET", "/x", kind=Kind.CREATE))


def test_a_read_is_repeated_and_then_given_up(web: Web) -> None:
    with pytest.raises(LandlordDown):
        _door(_says(web, 503, b"")).send(Ask("GET", "/x"))
    assert len(web.asked) == 3


def test_a_read_succeeds_once_the_server_is_back(web: Web) -> None:
    answers = [503, 200]
    web.reply("/x", lambda handler, asked: handler.plain(answers.pop(0), b'{"a": 1}'))
    assert _door(web.base).send(Ask("GET", "/x")).value == {"a": 1}


@pytest.mark.parametrize("kind", [Kind.READ, Kind.ACT])
def test_too_fast_is_waited_for_as_told(web: Web, kind: Kind) -> None:
    clock = VirtualClock()
    before, answers = clock(), [429, 200]

    def reply(handler: Handler, asked: Asked) -> None:
        handler.plain(answers.pop(0), b"{}", Retry_After="12")

    web.reply("/x", reply)
    assert _door(web.base, clock).send(Ask("GET", "/x", kind=kind)).ok
    assert clock() - before == 12


def test_a_wait_longer_than_our_patience_is_an_error(web: Web) -> None:
    with pytest.raises(TooFast) as caught:
        _door(_says(web, 429, b"", Retry_After="3600")).send(Ask("GET", "/x"))
    assert caught.value.retry_after_s == 3600
    assert len(web.asked) == 1


def test_a_wait_may_be_a_date_of_the_servers_clock(web: Web) -> None:
    clock = VirtualClock()
    base = _says(web, 429, b"", Retry_After="Thu, 01 Jan 2099 00:00:00 GMT")
    with pytest.raises(TooFast) as caught:
        _door(base, clock).send(Ask("GET", "/x", kind=Kind.CREATE))
    assert caught.value.retry_after_s is not None
    assert caught.value.retry_after_s > 3600


@pytest.mark.parametrize("body", [b'{"a": NaN}', b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}"])
def test_json_that_breaks_readers_is_no_answer(web: Web, body: bytes) -> None:
    with pytest.raises(LandlordError):
        _door(_says(web, 200, body)).send(Ask("GET", "/x"))


def test_an_answer_that_stops_early_is_no_answer(web: Web) -> None:
    def reply(handler: Handler, asked: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b'{"a": 1}')
        handler.close_connection = True

    web.reply("/x", reply)
    with pytest.raises(LandlordDown, match="did not answer"):
        _door(web.base).send(Ask("GET", "/x"))


def test_a_server_that_sends_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        clock = VirtualClock()
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        door = Door("Acme", base, {}, clock=clock, sleep=clock.pass_s, timeout_s=0.2)
        with pytest.raises(AnswerLost):
            door.send(Ask("POST", "/x", body={}, kind=Kind.CREATE))


def test_money_is_read_exactly(web: Web) -> None:
    answer = _door(_says(web, 200, b'{"price": 0.1, "text": "0.30"}')).send(Ask("GET", "/x")).answer
    assert answer.number("price") == Decimal("0.1")
    assert answer.number("text") == Decimal("0.30")
