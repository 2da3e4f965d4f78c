"""What is said of a panel behind a tunnel, and of notification channels, by real servers on the loopback."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import UserError
from leasehold.kit.tables.notice_channels import KINDS, secrets_of
from leasehold.lifecycle.box.tunnel import look_at_panel
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.tell import notify
from leasehold.lifecycle.tell.notify_test import try_channels
from leasehold.model.job.job import Job
from leasehold.model.job.parse_job import parse_job
from leasehold.model.lease.lease import Lease

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
def test_tensorboard_is_asked_which_runs_it_shows(runs: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.lifecycle.box.tunnel._ASK_TIMEOUT_S", 60.0)
    with serving(runs) as port:
        panel = look_at_panel(port, RUN, "~/.leasehold/active")
    where = "" if "among them" in said else " On the box: tensorboard --logdir ~/.leasehold/active"
    assert (panel.kind, panel.detail) == ("tensorboard", said + where)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_two_topics_of_one_server_are_told_apart_without_showing_them(home: Home) -> None:
    kept = [
        notify.add(home, "ntfy", {"url": f"https://ntfy.sh/{topic}"})["address"]
        for topic in ("alpha-secret", "beta-secret")
    ]
    assert kept[0] != kept[1]
    assert all(address.startswith("https://ntfy.sh/… (#") for address in kept)
    assert not any(word in "".join(kept) for word in ("alpha", "beta", "secret"))
    assert [one["name"] for one in notify.channels(home)] == ["ntfy", "ntfy-2"]


def test_a_port_is_shown_and_a_wrong_one_is_refused(home: Home) -> None:
    assert notify.shown({"url": "http://user:pw@127.0.0.1:8080/hook"}).startswith("http://127.0.0.1:8080/… (#")
    with pytest.raises(UserError) as caught:
        notify.add(home, "webhook", {"url": "http://127.0.0.1:99999/hook"})
    assert caught.value.code == "notify.bad_address"


def test_a_test_notice_says_which_of_the_channels_failed(home: Home) -> None:
    with serving() as port:
        notify.add(home, "ntfy", {"url": f"http://127.0.0.1:{port}/topic"})
        notify.add(home, "webhook", {"url": "http://127.0.0.1:1/hook"}, "own")  # port 1: nothing answers there
        tried = try_channels(home)
        alone = try_channels(home, "ntfy")
    assert tried.channels == 2
    (own,) = [one for one in notify.channels(home) if one["name"] == "own"]
    assert tried.problems == (f"own, {notify.shown(own)}: Connection refused",)
    assert (alone.channels, alone.problems) == (1, ())


FIELDS = {
    "telegram": {"token": "12:abcdefgh", "chat_id": "42"},
    "smtp": {"host": "mail.example.org", "to": "me@example.org", "password": "app-password"},
    **{kind: {"url": f"https://{kind}.example.org/a-secret"} for kind in KINDS if kind not in ("telegram", "smtp")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_kept_shown_without_its_secret_and_removed_by_name(home: Home, kind: str) -> None:
    kept = notify.add(home, kind, FIELDS[kind], "phone")
    assert (kept["name"], kept["kind"]) == ("phone", kind)
    assert not any(secret in str(kept) for secret in secrets_of({"kind": kind, **FIELDS[kind]}))
    assert (home.path / "notify.json").stat().st_mode & 0o777 == 0o600
    assert notify.remove(home, "phone") == kept
    assert notify.channels(home) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_field_is_named_with_the_way_to_get_it(home: Home, kind: str) -> None:
    with pytest.raises(UserError) as caught:
        notify.add(home, kind, {})
    assert "needs its" in caught.value.message and KINDS[kind].how in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ntfy", {"url": "https://ntfy.sh/x", "tokn": "y"}),
        ("smtp", {"host": "h", "to": "me@example.org", "security": "maybe"}),
        ("ntfy", {"url": "env:not a name"}),
    ],
)
def test_a_field_that_is_none_and_a_value_that_cannot_be_are_refused(home: Home, kind: str, fields: Any) -> None:
    with pytest.raises(UserError) as caught:
        notify.add(home, kind, fields)
    assert caught.value.code == "notify.usage"


def test_the_same_address_again_replaces_the_channel(home: Home) -> None:
    for name in ("old", "new"):
        notify.add(home, "slack", {"url": "https://hooks.slack.com/services/T/B/x"}, name)
    assert [one["name"] for one in notify.channels(home)] == ["new"]


def test_a_name_stands_for_one_channel(home: Home) -> None:
    notify.add(home, "ntfy", {"url": "https://ntfy.sh/one"}, "phone")
    with pytest.raises(UserError) as caught:
        notify.add(home, "ntfy", {"url": "https://ntfy.sh/two"}, "phone")
    assert caught.value.code == "notify.taken"


def test_a_secret_kept_by_name_is_read_when_it_is_needed(home: Home) -> None:
    notify.add(home, "ntfy", {"url": "env:NTFY_URL", "token": "env:NTFY_TOKEN"})
    (one,) = notify.channels(home)
    assert "NTFY_TOKEN" in (home.path / "notify.json").read_text()
    full = notify.resolved(one, {"NTFY_URL": "https://ntfy.sh/x", "NTFY_TOKEN": "tk_1"})
    assert (full["url"], full["token"]) == ("https://ntfy.sh/x", "tk_1")
    with pytest.raises(UserError) as caught:
        notify.resolved(one, {"NTFY_URL": "https://ntfy.sh/x"})
    assert caught.value.code == "notify.secret_missing" and "NTFY_TOKEN" in caught.value.message


def test_a_file_of_an_older_home_is_read_and_its_channels_get_names(home: Home) -> None:
    home.path.mkdir(parents=True)
    old = {"channels": [{"kind": "ntfy", "url": "https://x/1"}, {"kind": "ntfy", "url": "https://x/2"}]}
    (home.path / "notify.json").write_text(json.dumps(old))
    assert [one["name"] for one in notify.channels(home)] == ["ntfy", "ntfy-2"]


def _job(**change: Any) -> Job:
    return parse_job({"name": "toy", "run": "true", "artifacts": ["x.json"], **change}, "lease.yaml")


def test_a_job_chooses_topics_and_channels_and_its_own_machine_tells_too(home: Home) -> None:
    for name in ("phone", "mail"):
        notify.add(home, "ntfy", {"url": f"https://ntfy.sh/{name}"}, name)
    here, there = Lease("a", "local", "local", "", 0.0), Lease("a", "ssh:gpu1", "generic-ssh", "", 0.0)
    assert notify.wishes(home, here, _job()) == {}
    assert "on" not in notify.wishes(home, there, _job())
    told = notify.wishes(home, here, _job(notify={"on": ["ended"], "channels": ["mail"]}))
    assert (told["on"], [one["name"] for one in told["channels"]]) == (["ended"], ["mail"])
    assert notify.wishes(home, there, _job(notify=False)) == {}
    with pytest.raises(UserError) as caught:
        notify.wishes(home, there, _job(notify={"channels": ["pigeon"]}))
    assert caught.value.code == "notify.unknown"
