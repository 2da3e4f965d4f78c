"""The vendors' servers on the loopback: they take what the vendor would take and refuse what it would refuse.

Runs under PyPy 3.9 too.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import threading
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

SECRET = "SECa1b2c3d4e5f6"
TOKEN = "123456:AA-the-bot-token"
KEY = "693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa"
_HOUR_S = 3600


class Seen(NamedTuple):
    """One request: where, with what."""

    path: str
    headers: Dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body.decode("utf-8"))


class Said(NamedTuple):
    """One answer."""

    status: int
    body: bytes
    headers: Tuple[Tuple[str, str], ...] = ()


def as_json(value: Any, status: int = 200) -> Said:
    """Spell a JSON answer."""
    return Said(status, json.dumps(value).encode("utf-8"))


class Vendors:
    """What came, and answers that a test wants to come first."""

    def __init__(self, port: int) -> None:
        self.address = "http://127.0.0.1:%d" % port
        self.seen: List[Seen] = []
        self.first: List[Said] = []

    def channel(self, kind: str, **fields: str) -> Dict[str, str]:
        """Give a channel of this kind that leads here."""
        paths = {
            "webhook": "/hook?key=hook-secret",
            "ntfy": "/my-secret-topic",
            "slack": "/services/T000/B000/slack-secret",
            "feishu": "/open-apis/bot/v2/hook/feishu-secret",
            "dingtalk": "/robot/send?access_token=dingtalk-secret",
            "wecom": "/cgi-bin/webhook/send?key=" + KEY,
            "telegram": "",
        }
        more = {"token": TOKEN, "chat_id": "42"} if kind == "telegram" else {}
        return {"name": kind, "kind": kind, "url": self.address + paths[kind], **more, **fields}

    def answer(self, seen: Seen) -> Said:
        """Judge a request as its vendor would."""
        self.seen.append(seen)
        if self.first:
            return self.first.pop(0)
        parts = urlsplit(seen.path)
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if parts.path.startswith("/services/"):
            return _slack(seen)
        if parts.path.startswith("/bot"):
            return _telegram(seen)
        if parts.path.startswith("/open-apis/bot/v2/hook/"):
            return _feishu(seen)
        if parts.path == "/robot/send":
            return _dingtalk(seen, query)
        if parts.path == "/cgi-bin/webhook/send":
            return _wecom(seen, query)
        return Said(200, b"")


@contextlib.contextmanager
def vendors() -> Iterator[Vendors]:
    """Serve them all on one port."""

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            said = bed.answer(Seen(self.path, dict(self.headers.items()), body))
            self.send_response(said.status)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    bed = Vendors(server.server_port)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield bed
    finally:
        server.shutdown()
        server.server_close()


def _json_of(seen: Seen) -> Optional[Dict[str, Any]]:
    kind = seen.headers.get("Content-Type", "").split(";")[0]
    try:
        value = seen.value
    except ValueError:
        return None
    return value if kind == "application/json" and isinstance(value, dict) else None


def _slack(seen: Seen) -> Said:
    value = _json_of(seen)
    if value is None or not isinstance(value.get("text"), str) or not value["text"]:
        return Said(400, b"invalid_payload")
    return Said(200, b"ok") if len(value["text"]) <= 40000 else Said(400, b"msg_too_long")


def _telegram(seen: Seen) -> Said:
    def refuse(code: int, why: str) -> Said:
        return as_json({"ok": False, "error_code": code, "description": why}, code)

    token, _, method = seen.path[len("/bot") :].partition("/")
    value = _json_of(seen)
    if token != TOKEN:
        return refuse(401, "Unauthorized")
    if method != "sendMessage" or value is None:
        return refuse(404, "Not Found")
    if not value.get("chat_id"):
        return refuse(400, "Bad Request: chat_id is empty")
    if not value.get("text"):
        return refuse(400, "Bad Request: message text is empty")
    if len(value["text"].encode("utf-16-le")) // 2 > 4096:
        return refuse(400, "Bad Request: message is too long")
    return as_json({"ok": True, "result": {"message_id": len(value["text"])}})


def _feishu(seen: Seen) -> Said:
    value = _json_of(seen)
    if value is None or len(seen.body) > 20 * 1024:
        return as_json({"code": 9499, "msg": "Bad Request"})
    if value.get("msg_type") != "text" or not isinstance(value.get("content", {}).get("text"), str):
        return as_json({"code": 19002, "msg": "params error, msg_type need"})
    stamp = str(value.get("timestamp", ""))
    wanted = hmac.new(("%s\n%s" % (stamp, SECRET)).encode("utf-8"), b"", hashlib.sha256).digest()
    fresh = stamp.isdigit() and abs(time.time() - int(stamp)) < _HOUR_S
    if not fresh or value.get("sign") != base64.b64encode(wanted).decode("ascii"):
        return as_json({"code": 19021, "msg": "sign match fail or timestamp is not within one hour from current time"})
    return as_json({"code": 0, "msg": "success", "data": {}})


def _dingtalk(seen: Seen, query: Dict[str, str]) -> Said:
    value = _json_of(seen)
    if query.get("access_token") != "dingtalk-secret":
        return as_json({"errcode": 300005, "errmsg": "token is not exist"})
    stamp = query.get("timestamp", "")
    wanted = hmac.new(SECRET.encode("utf-8"), ("%s\n%s" % (stamp, SECRET)).encode("utf-8"), hashlib.sha256).digest()
    fresh = stamp.isdigit() and abs(time.time() * 1000 - int(stamp)) < _HOUR_S * 1000
    if not fresh or query.get("sign") != base64.b64encode(wanted).decode("ascii"):
        return as_json({"errcode": 310000, "errmsg": "sign not match"})
    if value is None or value.get("msgtype") != "text" or not value.get("text", {}).get("content"):
        return as_json({"errcode": 40035, "errmsg": "invalid params"})
    if len(seen.body) > 20000:
        return as_json({"errcode": 460101, "errmsg": "message too long"})
    return as_json({"errcode": 0, "errmsg": "ok"})


def _wecom(seen: Seen, query: Dict[str, str]) -> Said:
    value = _json_of(seen)
    if query.get("key") != KEY:
        return as_json({"errcode": 93000, "errmsg": "invalid webhook url"})
    if value is None or value.get("msgtype") != "markdown":
        return as_json({"errcode": 40008, "errmsg": "invalid message type"})
    content = value.get("markdown", {}).get("content", "")
    if not content or len(content.encode("utf-8")) > 4096:
        return as_json({"errcode": 40058, "errmsg": "markdown.content exceed max length 4096"})
    return as_json({"errcode": 0, "errmsg": "ok"})
