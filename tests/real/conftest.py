"""A life on a box behind a real sshd; and counts, said at the end (see tests/support/tally.py)."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.lifecycle.home.home import Home
from tests.support import tally
from tests.support.beds import SshBed, ssh_bed
from tests.support.lives import Life


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(tally):
        config.pluginmanager.register(tally)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Give an empty home whose name has a space."""
    made = Home(tmp_path / "lease home")
    yield made
    made.ledger.close()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Give a function that sets up a life on one ssh box: begin(job=..., box=environment of the box)."""
    with contextlib.ExitStack() as stack:
        beds: list[SshBed] = []

        def make(name: str = "life", job: dict[str, Any] | None = None, box: dict[str, str] | None = None) -> Life:
            if not beds:
                beds.append(stack.enter_context(ssh_bed(tmp_path, box)))
            life = Life(beds[0], tmp_path / name, job={"name": name, **(job or {})})
            stack.callback(life.close)
            return life

        yield make


@pytest.fixture
def life(begin: Callable[..., Life]) -> Life:
    """Give a plain life."""
    return begin()


@pytest.fixture
def heard() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give the address of a webhook and what it was sent."""
    seen: list[dict[str, Any]] = []

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", seen
    server.shutdown()
    server.server_close()
