"""One file over a bad network: it comes whole and checked, or the reason is said."""

from __future__ import annotations

import hashlib
import os
import random
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import pytest

from leasehold.caretaker.downloads import download_store
from leasehold.caretaker.downloads.download_file import LIMITS, Ears, Failed, FileFetch, Wanted, limits_of
from leasehold.caretaker.downloads.download_store import NoRoom, Store, Taken
from leasehold.caretaker.downloads.http import Route
from tests.support.web import Asked, Handler, Web, cut, ranged, web

DATA = random.Random(7).randbytes(300_000) if hasattr(random.Random, "randbytes") else os.urandom(300_000)
SHA = hashlib.sha256(DATA).hexdigest()
# No pauses; but a busy machine's silence is no stall, and its slowness no slow route.
QUICK: Dict[str, float] = {**LIMITS, "stall_s": 60.0, "pause_s": 0.0, "tries": 5, "probe_s": 60.0}


class Bench(NamedTuple):
    """A server, a store, and what was told."""

    web: Web
    store: Store
    told: List[Tuple[str, Dict[str, Any]]]

    def fetch(self, *urls: str, token: str = "", limits: Dict[str, float] = QUICK, **known: Any) -> bytes:
        """Fetch to d/file and return what lies there."""
        wanted = Wanted("d/file", tuple(Route(url, token) for url in urls), **known)
        ears = Ears(lambda kind, **facts: self.told.append((kind, facts)), lambda count: None, lambda total: None)
        FileFetch(self.store, wanted, limits, ears).run(True)
        return Path(self.store.path("d/file")).read_bytes()

    def told_of(self, kind: str) -> List[Dict[str, Any]]:
        """What was told of one kind."""
        return [facts for name, facts in self.told if name == kind]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with web() as server:
        store = Store(str(tmp_path / "data"))
        store.open()
        yield Bench(server, store, [])


def test_a_whole_file_comes_and_its_only_route_is_measured(bench: Bench) -> None:
    assert bench.fetch(bench.web.file("/f", DATA), sha256=SHA) == DATA
    (route,) = bench.told_of("download_route")
    assert route["routes"][0]["bytes_per_s"] > 0 and route["routes"][0]["via"] == "direct"


@pytest.mark.parametrize("how", ["reset", "stall", "close"])
def test_a_broken_connection_goes_on_where_it_stopped(bench: Bench, how: str) -> None:
    broken = cut(DATA, 100_000, how, bench.web.over, times=99)

    def reply(handler: Handler, asked: Asked) -> None:
        (ranged(handler, asked, DATA) if asked.begin else broken(handler, asked))

    limits = {**QUICK, "stall_s": 0.4, "tries": 99} if how == "stall" else QUICK
    assert bench.fetch(bench.web.reply("/f", reply), limits=limits, sha256=SHA) == DATA
    begins = [asked.begin for asked in bench.web.asked]
    assert begins[0] == 0 and 0 < next(filter(None, begins)) <= 100_000
    assert len(begins) == 2 or how == "stall"  # where a busy machine may be silent for so short a time too
    assert bench.told_of("download_retry")[0]["tries"] == 1


def test_a_server_that_ignores_ranges_is_read_from_the_start(bench: Bench) -> None:
    broken = cut(DATA, 100_000, "close")

    def reply(handler: Handler, asked: Asked) -> None:
        if len(bench.web.asked) == 1:
            broken(handler, asked)
        else:
            handler.plain(200, DATA)

    assert bench.fetch(bench.web.reply("/f", reply), sha256=SHA) == DATA
    assert bench.web.asked[1].begin > 0


def test_a_file_that_changed_meanwhile_is_read_from_the_start(bench: Bench) -> None:
    newer = DATA[::-1]

    def reply(handler: Handler, asked: Asked) -> None:
        if len(bench.web.asked) > 1:
            ranged(handler, asked, newer, '"two"')
            return
        handler.send_response(200)
        handler.send_header("ETag", '"one"')
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        handler.wfile.write(DATA[:1000])
        handler.close_connection = True

    assert bench.fetch(bench.web.reply("/f", reply)) == newer
    assert bench.web.asked[1].headers["if-range"] == '"one"'


def test_a_wrong_length_is_refused_before_anything_is_read(bench: Bench) -> None:
    with pytest.raises(Failed, match="it serves 300000 bytes, 5 were promised"):
        bench.fetch(bench.web.file("/f", DATA), size=5)
    assert len(bench.web.asked) == 1


def test_a_wrong_hash_is_fetched_once_more_and_then_refused(bench: Bench) -> None:
    with pytest.raises(Failed, match="sha256 .* came, .* was promised"):
        bench.fetch(bench.web.file("/f", DATA), sha256="0" * 64)
    assert len(bench.web.asked) == 2
    assert not os.path.exists(bench.store.path("d/file"))


def test_a_stream_of_unknown_length_needs_a_promise(bench: Bench) -> None:
    def reply(handler: Handler, asked: Asked) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(DATA)
        handler.close_connection = True

    url = bench.web.reply("/f", reply)
    with pytest.raises(Failed, match="does not report the length"):
        bench.fetch(url)
    assert bench.fetch(url, sha256=SHA) == DATA


@pytest.mark.parametrize(("status", "said"), [(404, "HTTP 404"), (403, "gated or private"), (401, "HF_TOKEN")])
def test_what_will_never_come_is_not_asked_for_twice(bench: Bench, status: int, said: str) -> None:
    url = bench.web.reply("/f", lambda handler, asked: handler.plain(status, b""))
    with pytest.raises(Failed, match=said):
        bench.fetch(url)
    assert len(bench.web.asked) == 1


def test_a_server_in_trouble_is_asked_so_many_times(bench: Bench) -> None:
    url = bench.web.reply("/f", lambda handler, asked: handler.plain(500, b""))
    with pytest.raises(Failed, match="HTTP 500") as failed:
        bench.fetch(url)
    assert failed.value.tries == len(bench.web.asked) == 5


def test_a_connection_is_renewed_after_its_time_and_that_costs_no_try(bench: Bench) -> None:
    limits = {**QUICK, "try_s": 0.0, "tries": 1, "least_rate": 0.0}
    assert bench.fetch(bench.web.file("/f", DATA), limits=limits, sha256=SHA) == DATA


def test_a_token_goes_to_its_own_host_and_no_further(bench: Bench) -> None:
    with web() as other:
        away = other.file("/f", DATA)
        bench.web.reply("/moved", lambda handler, asked: handler.plain(302, b"", Location=away))
        url = bench.web.reply("/f", lambda handler, asked: handler.plain(308, b"", Location="/moved"))
        assert bench.fetch(url, token="hf_secret", sha256=SHA) == DATA
        assert [asked.headers.get("authorization") for asked in bench.web.asked] == ["Bearer hf_secret"] * 2
        assert "authorization" not in other.asked[0].headers


def test_a_signed_address_that_ran_out_is_asked_for_anew(bench: Bench) -> None:
    with web() as other:
        gone = other.reply("/old", lambda handler, asked: handler.plain(403, b""))
        fresh = other.file("/new", DATA)
        places = [gone, fresh]
        url = bench.web.reply("/f", lambda handler, asked: handler.plain(302, b"", Location=places.pop(0)))
        assert bench.fetch(url, sha256=SHA) == DATA


def test_of_two_routes_the_faster_is_used_and_both_are_said(bench: Bench) -> None:
    def drips(handler: Handler, asked: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        handler.wfile.write(DATA[:10])
        time.sleep(0.5)
        handler.close_connection = True

    slow, fast = bench.web.reply("/slow", drips), bench.web.file("/fast", DATA)
    assert bench.fetch(slow, fast, sha256=SHA) == DATA
    (told,) = bench.told_of("download_route")
    assert [route["bytes_per_s"] > 10_000 for route in told["routes"]] == [False, True]
    assert bench.web.paths()[-1] == "/fast"


def test_a_dead_route_leaves_the_other(bench: Bench) -> None:
    assert bench.fetch(bench.web.base + "/absent", bench.web.file("/f", DATA), sha256=SHA) == DATA


def test_halves_of_two_hosts_are_not_joined_when_nothing_would_tell(bench: Bench) -> None:
    with web() as other:
        first = bench.web.reply("/f", cut(DATA, 100_000, "close", times=2))  # once measured, once fetched
        second = other.reply("/f", lambda handler, asked: ranged(handler, asked, DATA))
        assert bench.fetch(first, second) == DATA
    assert all(asked.begin == 0 for asked in other.asked)


def test_a_full_disk_is_said_before_the_first_byte(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_store, "_SPARE_BYTES", 1 << 60)
    with pytest.raises(NoRoom, match="bytes free"):
        bench.fetch(bench.web.file("/f", DATA))
    monkeypatch.setattr(download_store, "_SPARE_BYTES", 0)
    monkeypatch.setattr(download_store, "_SPARE_INODES", 1 << 60)
    if os.statvfs(bench.store.data).f_files:
        with pytest.raises(NoRoom, match="inodes left"):
            bench.fetch(bench.web.file("/f", DATA))


def test_a_file_of_yours_is_used_if_it_matches_and_never_replaced(bench: Bench) -> None:
    path = Path(bench.store.path("d/file"))
    path.parent.mkdir()
    path.write_bytes(DATA)
    url = bench.web.file("/f", DATA)
    assert bench.fetch(url, sha256=SHA) == DATA
    assert bench.web.asked == []
    for known, said in (({}, "nothing says what it should be"), ({"sha256": "0" * 64}, "its bytes differ")):
        with pytest.raises(Taken, match=said):
            bench.fetch(url, **known)
    assert path.read_bytes() == DATA


def test_limits_can_be_given_and_nonsense_is_not_taken() -> None:
    assert limits_of('{"stall_s": 1, "tries": "many", "other": 3}') == {**LIMITS, "stall_s": 1.0}
    assert limits_of("{") == LIMITS
