"""A tracker on the loopback: it checks the authorization header, and can be rude in every way a server can."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple


class WhoServer:
    """What a test sees: the address, the requests that came, and how to answer."""

    def __init__(self) -> None:
        self.port = 0
        self.accepts = ""  # the one Authorization header that is right
        self.answer: Any = {}
        self.raw: Optional[Tuple[int, Dict[str, str], bytes]] = None  # instead of any judgement
        self.hang = threading.Event()  # set: answer at once
        self.hang.set()
        self.seen: List[Tuple[str, str, str]] = []  # method, path, Authorization

    @property
    def url(self) -> str:
        """Where it listens."""
        return "http://127.0.0.1:%d" % self.port

    def reply(self, header: str) -> Tuple[int, Dict[str, str], bytes]:
        """Judge a header."""
        if self.raw is not None:
            return self.raw
        if header != self.accepts:
            return 401, {}, json.dumps({"error": "who is " + header}).encode()
        return 200, {}, json.dumps(self.answer).encode()


@contextlib.contextmanager
def who_server() -> Iterator[WhoServer]:
    """Give a server, and end it."""
    told = WhoServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            header = self.headers.get("Authorization", "")
            told.seen.append((self.command, self.path, header))
            told.hang.wait(30)
            code, headers, body = told.reply(header)
            with contextlib.suppress(OSError):
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        told.hang.set()
        server.shutdown()
        server.server_close()
        thread.join()
