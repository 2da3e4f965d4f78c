"""What is said of a panel behind a tunnel, and of notification channels, by real servers on the loopback."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle import notify
from leasehold.lifecycle.home import Home
from leasehold.lifecycle.tunnel import look_at_panel

RUN = "toy-0123456789"


@contextmanager
def serving(runs: object = None) -> Iterator[int]:
    """Be a panel that shows these runs, and a channel that takes what is posted."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(runs).encode())

        do_GET = do_POST = _answer

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([f"{RUN}/out/main", "old"], f"it shows 2 runs, {RUN}/out/main among them"),
        (["."], "it shows 1 run without a name (the files lie in its --logdir itself), so it cannot be told whose."),
        ([], "it shows no run at all: its --logdir holds no event files (yet)."),
        (["old\x1b[2J"], f"it shows 1 run (old), none named {RUN}: is its --logdir where this run writes?"),
    ],
)
def test_tensorboard_is_asked_which_runs_it_shows(runs: list[str], said: str) -> None:
    with serving(runs) as port:
        panel = look_at_panel(port, RUN, "~/.leasehold/active")
    where = "" if "among them" in said else " On the box: tensorboard --logdir ~/.leasehold/active"
    assert (panel.kind, panel.detail) == ("tensorboard", said + where)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_two_topics_of_one_server_can_be_told_apart_and_show_nothing_of_themselves(home: Home) -> None:
    kept = [
        notify.add(home, "ntfy", f"https://ntfy.sh/{topic}")["address"] for topic in ("alpha-secret", "beta-secret")
    ]
    assert kept[0] != kept[1]
    assert all(address.startswith("https://ntfy.sh/… (#") for address in kept)
    assert not any(word in "".join(kept) for word in ("alpha", "beta", "secret"))


def test_a_port_is_shown_and_a_wrong_one_is_refused(home: Home) -> None:
    assert notify.shown("http://user:pw@127.0.0.1:8080/hook").startswith("http://127.0.0.1:8080/… (#")
    with pytest.raises(UserError) as caught:
        notify.add(home, "webhook", "http://127.0.0.1:99999/hook")
    assert caught.value.code == "notify.bad_address"


def test_a_test_notice_says_which_of_the_channels_failed(home: Home) -> None:
    with serving() as port:
        notify.add(home, "ntfy", f"http://127.0.0.1:{port}/topic")
        notify.add(home, "webhook", "http://127.0.0.1:1/hook")  # port 1: nothing answers there
        count, problems = notify.send_test(home)
    assert count == 2
    assert problems == [f"channel 2, {notify.shown('http://127.0.0.1:1/hook')}: Connection refused"]
