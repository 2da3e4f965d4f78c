"""An object store in memory that does wrong on order: busy, cut, full, lying, with another clock or another key.

Signatures are checked by the real stores of object_stores.py; here is what those cannot be made to do.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import uuid
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Type
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.object_stores import BUCKET, environ_for

SOME_TIME = "2026-11-19T20:00:00.000Z"


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    key: str
    query: Dict[str, str]
    headers: Dict[str, str]

    @property
    def part(self) -> int:
        """Return the number of the part that is put; 0 for none."""
        return int(self.query.get("partNumber", "0"))


class Reply(NamedTuple):
    """What to answer; `cut` hangs up after so many bytes of it, -1 before any."""

    status: int = 200
    body: bytes = b""
    headers: Tuple[Tuple[str, str], ...] = ()
    cut: Optional[int] = None


def error(status: int, code: str, message: str = "", more: str = "") -> Reply:
    """Return an error as S3 writes it."""
    text = "<Error><Code>%s</Code><Message>%s</Message>%s</Error>" % (code, message, more)
    return Reply(status, text.encode())


Order = Callable[[Asked], Optional[Reply]]


class FaultStore:
    """One bucket. `order` sees each request first and may answer it; `after` may change what is answered."""

    def __init__(self, obeys: bool = True, checks: bool = True) -> None:
        self.objects: Dict[str, bytes] = {}
        self.born: Dict[str, str] = {}  # when an object was last written, if not just now
        self.uploads: Dict[str, Tuple[str, Dict[int, bytes]]] = {}
        self.asked: List[Asked] = []
        self.order: Order = lambda _: None
        self.after: Callable[[Asked, Reply], Reply] = lambda _, reply: reply
        self.obeys = obeys  # If-None-Match
        self.checks = checks  # x-amz-checksum-sha256
        self.ahead_s = 0.0  # of the clock in its answers
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.environ = environ_for(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "FaultStore":
        self._thread.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def parts_sent(self) -> List[int]:
        """Return the numbers of the parts that were put, in order."""
        return sorted(one.part for one in self.asked if one.method == "PUT" and one.part)

    # ---------------------------------------------------------------- answers

    def answer(self, asked: Asked, body: bytes) -> Reply:
        """Do what was asked."""
        with self.lock:
            self.asked.append(asked)
        ordered = self.order(asked)
        if ordered is not None:
            return ordered
        with self.lock:
            return self.after(asked, self._do(asked, body))

    def _do(self, asked: Asked, body: bytes) -> Reply:
        query = asked.query
        if asked.method == "PUT":
            return self._put(asked, body)
        if asked.method == "DELETE":
            self.uploads.pop(query.get("uploadId", ""), None)
            if "uploadId" not in query:
                self.objects.pop(asked.key, None)
            return Reply(204)
        if asked.method == "POST":
            return self._post(asked)
        if "uploadId" in query:
            return self._parts(query)
        if asked.key:
            return self._get(asked)
        return self._unfinished(query) if "uploads" in query else self._list(query)

    def _put(self, asked: Asked, body: bytes) -> Reply:
        said = asked.headers.get("x-amz-checksum-sha256")
        digest = hashlib.sha256(body)
        if self.checks and said and base64.b64decode(said) != digest.digest():
            return error(400, "BadDigest")
        if asked.headers["x-amz-content-sha256"] != digest.hexdigest():
            return error(400, "XAmzContentSHA256Mismatch")
        if not asked.key:
            return Reply(200)
        tag = (("ETag", '"%s"' % hashlib.md5(body).hexdigest()),)
        if asked.part:
            if asked.query["uploadId"] not in self.uploads:
                return error(404, "NoSuchUpload")
            self.uploads[asked.query["uploadId"]][1][asked.part] = body
            return Reply(200, b"", tag)
        if self.obeys and asked.headers.get("if-none-match") == "*" and asked.key in self.objects:
            return error(412, "PreconditionFailed")
        self.objects[asked.key] = body
        return Reply(200, b"", tag)

    def _post(self, asked: Asked) -> Reply:
        if "uploads" in asked.query:
            name = uuid.uuid4().hex
            self.uploads[name] = (asked.key, {})
            text = "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>" % name
            return Reply(200, text.encode())
        found = self.uploads.pop(asked.query["uploadId"], None)
        if found is None:
            return error(404, "NoSuchUpload")
        self.objects[asked.key] = b"".join(found[1][number] for number in sorted(found[1]))
        return Reply(200, b"<CompleteMultipartUploadResult/>")

    def _get(self, asked: Asked) -> Reply:
        data = self.objects.get(asked.key)
        if data is None:
            return error(404, "NoSuchKey")
        tag = '"%s"' % hashlib.md5(data).hexdigest()
        if asked.headers.get("if-match", tag) != tag:
            return error(412, "PreconditionFailed")
        found = re.match(r"bytes=(\d+)-(\d+)", asked.headers.get("range", ""))
        if found is None:
            return Reply(200, data, (("ETag", tag),))
        first, last = int(found.group(1)), min(int(found.group(2)), len(data) - 1)
        if first >= len(data):
            return error(416, "InvalidRange")
        span = "bytes %d-%d/%d" % (first, last, len(data))
        return Reply(206, data[first : last + 1], (("ETag", tag), ("Content-Range", span)))

    def _list(self, query: Dict[str, str]) -> Reply:
        most = int(query.get("max-keys", "1000"))
        after = query.get("continuation-token", "")
        left = sorted(key for key in self.objects if key.startswith(query.get("prefix", "")) and key > after)
        rows = [
            "<Contents><Key>%s</Key><LastModified>%s</LastModified><Size>%d</Size></Contents>"
            % (quote(key), self.born.get(key, SOME_TIME), len(self.objects[key]))
            for key in left[:most]
        ]
        more = len(left) > most
        end = "<NextContinuationToken>%s</NextContinuationToken>" % escape(left[most - 1]) if more else ""
        start = "<EncodingType>url</EncodingType><IsTruncated>%s</IsTruncated>" % str(more).lower()
        return Reply(200, ("<ListBucketResult>%s%s%s</ListBucketResult>" % (start, end, "".join(rows))).encode())

    def _unfinished(self, query: Dict[str, str]) -> Reply:
        rows = "".join(
            "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>%s</Initiated></Upload>"
            % (escape(key), name, SOME_TIME)
            for name, (key, _) in self.uploads.items()
            if key.startswith(query.get("prefix", ""))
        )
        return Reply(200, ("<ListMultipartUploadsResult>%s</ListMultipartUploadsResult>" % rows).encode())

    def _parts(self, query: Dict[str, str]) -> Reply:
        if query["uploadId"] not in self.uploads:
            return error(404, "NoSuchUpload")
        rows = "".join(
            '<Part><PartNumber>%d</PartNumber><Size>%d</Size><ETag>"%s"</ETag></Part>'
            % (number, len(data), hashlib.md5(data).hexdigest())
            for number, data in self.uploads[query["uploadId"]][1].items()
        )
        return Reply(200, ("<ListPartsResult>%s</ListPartsResult>" % rows).encode())


def _handler(store: FaultStore) -> Type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return

        def date_time_string(self, timestamp: Optional[float] = None) -> str:
            import time

            return formatdate(time.time() + store.ahead_s, usegmt=True)

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            bucket, _, key = unquote(parts.path)[1:].partition("/")
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", "0")))
            asked = Asked(self.command, key, dict(parse_qsl(parts.query, keep_blank_values=True)), headers)
            reply = store.answer(asked, body) if bucket == BUCKET else error(404, "NoSuchBucket")
            if reply.cut == -1:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
            self.close_connection = self.close_connection or reply.cut is not None

        do_GET = do_PUT = do_POST = do_DELETE = _serve

    return Handler
