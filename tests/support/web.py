"""A small HTTP server on the loopback that misbehaves as told: stalls, resets, lies, redirects."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional
from urllib.parse import parse_qs, unquote, urlsplit


class Asked(NamedTuple):
    """One request as it came."""

    path: str
    query: Dict[str, List[str]]
    headers: Dict[str, str]

    @property
    def begin(self) -> int:
        """The first byte asked for."""
        word = self.headers.get("range", "bytes=0-")
        return int(word[len("bytes=") :].partition("-")[0])


Reply = Callable[["Handler", Asked], None]


class Handler(BaseHTTPRequestHandler):
    """Looks the path up and lets its reply act."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(unquote(parts.path), parse_qs(parts.query), headers)
        self.server.web.asked.append(asked)
        reply = self.server.web.replies.get(asked.path)
        if reply is None:
            self.plain(404, b"")
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            reply(self, asked)

    def plain(self, status: int, body: bytes, **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def reset(self) -> None:
        """Cut the connection as a broken network does."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.shutdown(socket.SHUT_RD)
        self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    web: "Web"


class Web:
    """What is served, and what was asked."""

    def __init__(self) -> None:
        self.replies: Dict[str, Reply] = {}
        self.asked: List[Asked] = []
        self.over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.web = self
        self.base = "http://127.0.0.1:%d" % self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def file(self, path: str, data: bytes, etag: str = "") -> str:
        """Serve bytes honestly, ranges included."""
        return self.reply(path, lambda handler, asked: ranged(handler, asked, data, etag))

    def reply(self, path: str, reply: Reply) -> str:
        """Serve a path as told; return its address."""
        self.replies[path] = reply
        return self.base + path

    def paths(self) -> List[str]:
        """List what was asked, in order."""
        return [asked.path for asked in self.asked]

    def close(self) -> None:
        """Let stalled answers go and stop serving."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def web() -> Iterator[Web]:
    """Give a server and end it."""
    server = Web()
    try:
        yield server
    finally:
        server.close()


def ranged(handler: Handler, asked: Asked, data: bytes, etag: str = "") -> None:
    """Answer a range request as the standard says."""
    begin = asked.begin
    extra = {"ETag": etag} if etag else {}
    if etag and asked.headers.get("if-range", etag) != etag:
        begin = 0
    if begin and begin >= len(data):
        handler.plain(416, b"", Content_Range="bytes */%d" % len(data))
    elif begin:
        where = "bytes %d-%d/%d" % (begin, len(data) - 1, len(data))
        handler.plain(206, data[begin:], Content_Range=where, **extra)
    else:
        handler.plain(200, data, **extra)


def cut(data: bytes, size: int, how: str, over: Optional[threading.Event] = None, times: int = 1) -> Reply:
    """Serve `size` more bytes and then fail (`reset`, `stall`, `close`) for so many requests; then serve the rest."""
    left = [times]

    def reply(handler: Handler, asked: Asked) -> None:
        if left[0] <= 0:
            ranged(handler, asked, data)
            return
        left[0] -= 1
        begin = asked.begin
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", "bytes %d-%d/%d" % (begin, len(data) - 1, len(data)))
        handler.send_header("Content-Length", str(len(data) - begin))
        handler.end_headers()
        handler.wfile.write(data[begin : begin + size])
        handler.wfile.flush()
        if how == "stall" and over is not None:
            over.wait(600)
        if how == "reset":
            time.sleep(0.05)  # what was sent must arrive before the reset overtakes it
            handler.reset()
        handler.close_connection = True

    return reply


class Hub:
    """The part of a model hub's API that a download needs."""

    def __init__(self, server: Web, repo: str, files: Dict[str, bytes], kind: str = "models") -> None:
        self.commit = hashlib.sha1(repo.encode()).hexdigest()
        siblings: List[Dict[str, Any]] = []
        for name, data in files.items():
            entry: Dict[str, Any] = {"rfilename": name, "size": len(data)}
            if name.endswith((".bin", ".safetensors")):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            else:
                entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            siblings.append(entry)
            prefix = "" if kind == "models" else "/" + kind
            server.file("%s/%s/resolve/%s/%s" % (prefix, repo, self.commit, name), data)
        self.listing = {"sha": self.commit, "siblings": siblings}
        body = json.dumps(self.listing).encode()
        self.path = "/api/%s/%s/revision/main" % (kind, repo)
        server.reply(self.path, lambda handler, asked: handler.plain(200, body))
