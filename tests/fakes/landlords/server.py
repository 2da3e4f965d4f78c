"""A landlord's API as a real HTTP server on the loopback: every request and every answer is checked by a schema."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.schema import faults_of
from tests.fakes.landlords.world import Faults, Houses, World

KEY = "fake-key-0123456789abcdef"


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any  # JSON; None without a body
    parts: tuple[str, ...] = ()  # what the route's holes held


@dataclass(frozen=True)
class Said:
    """One answer."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


class Silence(Exception):
    """No answer: the connection is closed."""


@dataclass(frozen=True)
class Route:
    """One operation: what it takes and gives."""

    method: str
    path: str  # {} is a hole
    call: Callable[[Any, Call], Said]
    body: Any
    query: Any
    answers: Mapping[int, Any]
    does: str  # read, act or create

    @property
    def pattern(self) -> re.Pattern[str]:
        """The path as an expression."""
        return re.compile("([^/]+)".join(re.escape(part) for part in self.path.split("{}")) + r"\Z")


Handler = TypeVar("Handler", bound=Callable[[Any, Call], Said])


def route(
    method: str, path: str, answers: Mapping[int, Any], *, body: Any = None, query: Any = None, does: str = "read"
) -> Callable[[Handler], Handler]:
    """Mark a method as an operation."""

    def mark(call: Handler) -> Handler:
        call.route = Route(method, path, call, body, query, answers, does)  # type: ignore[attr-defined]
        return call

    return mark


class FakeLandlord:
    """What the five have in common: routes, keys, faults, the log."""

    name: ClassVar[str]

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.world = World(self.clock, houses)
        self.key = KEY
        self.log: list[tuple[str, str, int, Any]] = []  # method, route, status, answer
        self.calls: list[Call] = []
        self.problems: list[str] = []  # what broke a schema; a test's fixture looks
        self.address = ""
        self._lock = threading.RLock()
        marked = (getattr(type(self), name, None) for name in dir(type(self)))
        self.routes: list[Route] = [one.route for one in marked if hasattr(one, "route")]

    @property
    def faults(self) -> Faults:
        """The switches."""
        return self.world.faults

    # ------------------------------------------------------------ the vendor's own ways

    def bad_key(self, call: Call) -> Said | None:
        """Answer a request without the right key as the vendor does; None if the key is right."""
        raise NotImplementedError

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429."""
        raise NotImplementedError

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer a request that breaks the schema."""
        raise NotImplementedError

    def not_found(self, call: Call) -> Said:
        """Answer a path that there is not."""
        raise NotImplementedError

    # ------------------------------------------------------------ answering

    def answer(self, call: Call) -> Said:
        """Answer one request, one at a time."""
        with self._lock:
            self.world.settle()
            self.calls.append(call)
            if self.faults.down:
                return Said(503, raw=b"<html>maintenance</html>", headers={"Content-Type": "text/html"})
            if said := self.bad_key(call):
                return said
            if self.faults.too_fast:
                return self.too_fast(self.faults.too_fast.pop(0))
            return self._routed(call)

    def _routed(self, call: Call) -> Said:
        for one in self.routes:
            if one.method == call.method and (found := one.pattern.match(call.path)):
                held = Call(
                    call.method, call.path, call.query, call.headers, call.body, tuple(map(unquote, found.groups()))
                )
                wrong = faults_of(call.body, one.body) if one.body is not None else []
                wrong += faults_of(call.query, one.query) if one.query is not None else []
                if wrong:
                    return self._checked(one, self.bad_request(held, "; ".join(wrong)))
                return self._carried(one, held)
        return self.not_found(call)

    def _carried(self, one: Route, call: Call) -> Said:
        lost = {"create": self.faults.lose_creates, "act": self.faults.lose_acts}.get(one.does)
        if not lost:
            said = self._checked(one, one.call(self, call))
            unread = one.does == "create" and self.faults.odd_made and said.status < 300
            return Said(said.status, {}) if unread else said
        if lost.pop(0):
            self._checked(one, one.call(self, call))
        raise Silence

    def _checked(self, one: Route, said: Said) -> Said:
        self.log.append((one.method, one.path, said.status, said.value))
        if said.status not in one.answers:
            self.problems.append(f"{one.method} {one.path} answered {said.status}, which is not documented")
        elif one.answers[said.status] is not None:
            wrong = faults_of(said.value, one.answers[said.status])
            self.problems += [f"{one.method} {one.path} {said.status}: {what}" for what in wrong]
        return said


@contextlib.contextmanager
def served(landlord: FakeLandlord) -> Iterator[FakeLandlord]:
    """Serve a landlord; its `address` is where."""
    server = _Server(("127.0.0.1", 0), _Door)
    server.landlord = landlord
    landlord.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield landlord
    finally:
        server.shutdown()
        server.server_close()


def _number(text: str) -> int | float:
    """Read 3.0 as 3: JSON does not tell them apart."""
    value = float(text)
    return int(value) if value.is_integer() else value


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    landlord: FakeLandlord


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _answer(self) -> None:
        landlord = self.server.landlord
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        try:
            value = json.loads(body, parse_float=_number) if body else None
        except ValueError:
            value = body.decode("utf-8", "replace")
        headers = {name.lower(): text for name, text in self.headers.items()}
        if landlord.faults.slow_s:
            time.sleep(landlord.faults.slow_s)
        try:
            said = landlord.answer(Call(self.command, parts.path, dict(parse_qsl(parts.query)), headers, value))
        except Silence:
            self.close_connection = True
            return
        except Exception as error:  # noqa: BLE001 - a defect of the fake: the test must see it
            landlord.problems.append(f"{self.command} {self.path}: {error!r}")
            said = Said(500, {"error": "the fake failed"})
        self._send(said, landlord.faults.garbled)

    def _send(self, said: Said, garbled: bool) -> None:
        data = said.raw if said.raw is not None else b"" if said.value is None else json.dumps(said.value).encode()
        self.send_response(said.status)
        for name, text in {"Content-Type": "application/json", **said.headers}.items():
            self.send_header(name, text)
        if said.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data[: len(data) // 2] if garbled else data)
        if garbled:
            self.close_connection = True

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Tell the landlord's time."""
        return formatdate(self.server.landlord.world.vendor_now, usegmt=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def openapi(landlord: FakeLandlord) -> dict[str, Any]:
    """Write a landlord's operations as an OpenAPI document, for tools that read one."""
    paths: dict[str, dict[str, Any]] = {}
    for one in landlord.routes:
        names = [f"part{index}" for index in range(one.path.count("{}"))]
        values = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        query = one.query or {}
        for name, schema in query.get("properties", {}).items():
            must = name in query.get("required", [])
            values.append({"name": name, "in": "query", "required": must, "schema": schema})
        operation: dict[str, Any] = {"parameters": values, "responses": {}}
        if one.body is not None:
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": one.body}}}
        for status, schema in one.answers.items():
            content = {} if schema is None else {"content": {"application/json": {"schema": schema}}}
            operation["responses"][str(status)] = {"description": "", **content}
        path = one.path.replace("{}", "{%s}") % tuple(names)
        paths.setdefault(path, {})[one.method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": landlord.name, "version": "1"}, "paths": paths}
