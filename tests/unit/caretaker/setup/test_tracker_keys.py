"""Whose key is this: asked of a real server on the loopback. Runs under PyPy too."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, Iterator

import pytest

from leasehold.caretaker.setup.tracker_keys import TIMEOUT_S, ask_here
from leasehold.kit.tables.trackers import TRACKERS, tracker_of
from tests.support.who_server import WhoServer, who_server

KEY = "k3y-0123456789abcdefghijklmnopqrstuvwxyz-0123456789-0123456789-0123456789-0123456789"
BASIC = "Basic " + base64.b64encode(("api:" + KEY).encode()).decode()
GOOD = {
    "WANDB_API_KEY": ("WANDB_BASE_URL", "", "POST /graphql", BASIC, {"data": {"viewer": {"entity": "ada"}}}),
    "HF_TOKEN": ("HF_ENDPOINT", "/", "GET /api/whoami-v2", "Bearer " + KEY, {"name": "ada", "type": "user"}),
    "HUGGING_FACE_HUB_TOKEN": ("HF_ENDPOINT", "", "GET /api/whoami-v2", "Bearer " + KEY, {"name": "ada"}),
    "COMET_API_KEY": (
        "COMET_URL_OVERRIDE", "/clientlib/", "GET /api/rest/v2/account-details", KEY, {"userName": "ada"},
    ),
    "SWANLAB_API_KEY": ("SWANLAB_API_HOST", "", "POST /api/login/api_key", KEY, {"userInfo": {"username": "ada"}}),
    "MLFLOW_TRACKING_TOKEN": (
        "MLFLOW_TRACKING_URI", "", "POST /api/2.0/mlflow/experiments/search", "Bearer " + KEY, {"experiments": []},
    ),
}  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WhoServer]:
    """Give a tracker; no proxy of this machine stands between."""
    monkeypatch.setenv("no_proxy", "*")
    with who_server() as running:
        running.accepts = "Bearer " + KEY
        running.answer = {"name": "ada"}
        yield running


def ask(server: WhoServer, key: str = KEY, timeout_s: float = TIMEOUT_S, **env: str) -> Dict[str, Any]:
    (answer,) = ask_here({"HF_TOKEN": key}, {"HF_ENDPOINT": server.url, **env}, timeout_s)
    assert key not in json.dumps(answer)
    return answer


@pytest.mark.parametrize("secret", GOOD)
def test_each_tracker_is_asked_its_own_way(server: WhoServer, secret: str) -> None:
    variable, end, request, header, answer = GOOD[secret]
    server.accepts, server.answer = header, answer
    (said,) = ask_here({secret: KEY}, {variable: server.url + end})
    assert said["outcome"] == "passed", said
    assert said["said"] == ("accepted" if secret.startswith("MLFLOW") else "accepted, account ada")
    assert server.seen == [(*request.split(" "), header)]


@pytest.mark.parametrize("secret", GOOD)
def test_a_wrong_key_is_refused_without_being_repeated(server: WhoServer, secret: str) -> None:
    variable, end = GOOD[secret][:2]
    server.accepts = "something else"
    (said,) = ask_here({secret: KEY}, {variable: server.url + end})
    assert (said["outcome"], said["said"]) == ("refused", "does not accept it (127.0.0.1 answered 401)")
    assert KEY not in json.dumps(said)


def test_the_table_covers_every_case_here() -> None:
    assert {secret for tracker in TRACKERS for secret in tracker.secrets} == set(GOOD)
    assert all(tracker.source for tracker in TRACKERS)
    assert tracker_of("PATH") is None


@pytest.mark.parametrize(
    "code, outcome", [(403, "refused"), (404, "unknown"), (407, "unknown"), (429, "unknown"), (500, "unknown")]
)
def test_only_a_clear_no_refuses(server: WhoServer, code: int, outcome: str) -> None:
    server.raw = (code, {}, KEY.encode())
    assert ask(server)["outcome"] == outcome


@pytest.mark.parametrize(
    "body", [b"", b"<html>log in</html>", b"[]", b'"x"', b"\xff\xfe", b'{"other": 1}', b"{" * 100_000, b"[" * 60_000]
)
def test_garbage_is_unknown(server: WhoServer, body: bytes) -> None:
    server.raw = (200, {}, body)
    answer = ask(server)
    assert answer["outcome"] == "unknown"
    assert "not checked" in answer["said"]


def test_a_viewer_of_nobody_is_refused_but_a_failed_question_is_not(server: WhoServer) -> None:
    for body, outcome in (({"data": {"viewer": None}}, "refused"), ({"errors": [{}], "data": None}, "unknown")):
        server.raw = (200, {}, json.dumps(body).encode())
        (said,) = ask_here({"WANDB_API_KEY": KEY}, {"WANDB_BASE_URL": server.url})
        assert said["outcome"] == outcome


def test_a_redirect_is_not_followed_and_the_key_does_not_travel(server: WhoServer) -> None:
    with who_server() as thief:
        server.raw = (302, {"Location": thief.url.replace("127.0.0.1", "localhost") + "/steal?k=" + KEY}, b"")
        answer = ask(server)
        assert answer["outcome"] == "unknown"
        assert "sends us on to localhost" in answer["said"]
        assert thief.seen == []
    assert len(server.seen) == 1


def test_a_server_that_hangs_is_unknown(server: WhoServer) -> None:
    server.hang.clear()
    answer = ask(server, timeout_s=0.1)
    assert answer["outcome"] == "unknown"
    assert "not checked" in answer["said"]


def test_nobody_listening_is_unknown(server: WhoServer) -> None:
    with who_server() as gone:
        nowhere = gone.url
    answer = ask(server, HF_ENDPOINT=nowhere)
    assert answer["outcome"] == "unknown"
    assert "could not be reached (Connection refused)" in answer["said"]


def test_what_a_server_echoes_is_cut_and_cleaned(server: WhoServer) -> None:
    for name in (KEY, "x" + KEY + "x", KEY[:40], "\x1b[31m" + KEY):
        server.answer = {"name": name}
        said = ask(server)["said"]
        assert KEY[:12] not in said and "\x1b" not in said
    server.answer = {"name": "\x1b]0;title\x07ada\n" + "a" * 500}
    said = ask(server)["said"]
    assert said.startswith("accepted, account ada\\n") and len(said) < 100


@pytest.mark.parametrize("key", [KEY + "\n", KEY + "\r\nX-Other: 1", "naïve-ключ-中文-0123456789"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_quoted(server: WhoServer, key: str) -> None:
    answer = ask(server, key)
    assert answer["outcome"] == "refused"
    assert server.seen == []


@pytest.mark.parametrize(
    "secret, env, why",
    [
        ("WANDB_API_KEY", {"WANDB_MODE": "offline"}, "WANDB_MODE=offline"),
        ("WANDB_API_KEY", {"WANDB_MODE": "Disabled"}, "WANDB_MODE=Disabled"),
        ("HF_TOKEN", {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE=1"),
        ("SWANLAB_API_KEY", {"SWANLAB_MODE": "local"}, "SWANLAB_MODE=local"),
        ("MLFLOW_TRACKING_TOKEN", {}, "MLFLOW_TRACKING_URI is not set"),
        ("MLFLOW_TRACKING_TOKEN", {"MLFLOW_TRACKING_URI": "databricks"}, "MLFLOW_TRACKING_URI is no http address"),
    ],
)
def test_what_is_switched_off_is_not_asked_and_says_so(secret: str, env: Dict[str, str], why: str) -> None:
    (said,) = ask_here({secret: KEY}, env)
    assert (said["outcome"], said["said"]) == ("passed", "not asked, for " + why)


def test_secrets_of_nobody_we_know_are_not_asked_about() -> None:
    assert ask_here({"MY_PASSWORD": KEY}, {}) == []
