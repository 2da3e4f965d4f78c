"""The vendors' formats, and the meaning of their answers: HTTP 200 alone proves nothing with most of them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import urllib.parse
from typing import Any, Callable, Dict, Mapping, NamedTuple

from leasehold.kit.tables.notice_channels import KINDS, cut

from .http_post import Answer, Post, Trouble, taken

_JSON = {"Content-Type": "application/json; charset=utf-8"}
_TITLE_BYTES = 250  # a title is a line
_MINUTE_S = 60.0

Fields = Mapping[str, Any]


class Vendor(NamedTuple):
    """The format of one vendor's requests and answers; judge raises Trouble."""

    write: Callable[[Fields, Fields, float], Post]
    judge: Callable[[Answer], None]


def _webhook(channel: Fields, message: Fields, now_unix: float) -> Post:
    body = json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Post(channel["url"], body, {"Content-Type": "application/json", **_bearer(channel)})


def _ntfy(channel: Fields, message: Fields, now_unix: float) -> Post:
    """Give title and priority as headers, the text as body: https://docs.ntfy.sh/publish/ (longer is made a file)."""
    headers = {
        "Title": _ascii(_title(message)),
        "Priority": {"low": "low", "high": "high"}.get(str(message.get("priority")), "default"),
        "Tags": "computer",
        **_bearer(channel),
    }
    return Post(channel["url"], _utf8(_text(message, "ntfy")), headers)


def _slack(channel: Fields, message: Fields, now_unix: float) -> Post:
    """Post mrkdwn text, its three characters escaped: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks

    One message a second (https://docs.slack.dev/apis/web-api/rate-limits); a refusal is an HTTP status and a word.
    """
    text = _text(message, "slack", "*%s*\n" % _title(message))
    for char, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(char, escaped)
    return _post_json(channel["url"], {"text": text})


def _telegram(channel: Fields, message: Fields, now_unix: float) -> Post:
    """Send plain text, which needs no escaping: https://core.telegram.org/bots/api#sendmessage (UTF-16 counts)."""
    text = _text(message, "telegram", _title(message) + "\n")
    server = str(channel.get("url") or KINDS["telegram"].field("url").default).rstrip("/")
    said: Dict[str, Any] = {"chat_id": channel["chat_id"], "text": text}
    said["link_preview_options"] = {"is_disabled": True}
    if message.get("priority") == "low":
        said["disable_notification"] = True
    return _post_json("%s/bot%s/sendMessage" % (server, channel["token"]), said)


def _feishu(channel: Fields, message: Fields, now_unix: float) -> Post:
    """Sign with `timestamp\\nsecret` as the key and nothing as the text, in seconds, in the body.

    https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (20 kB, 100 a minute, 5 a second).
    """
    text = _text(message, "feishu", "[lease] %s\n" % _title(message)).replace("<at", "< at")
    said: Dict[str, Any] = {"msg_type": "text", "content": {"text": text}}
    if channel.get("secret"):
        stamp = str(int(now_unix))
        said["timestamp"] = stamp
        said["sign"] = _signed("%s\n%s" % (stamp, channel["secret"]), "")
    return _post_json(channel["url"], said)


def _dingtalk(channel: Fields, message: Fields, now_unix: float) -> Post:
    """Sign `timestamp\\nsecret` with the secret as the key, in milliseconds, in the query.

    https://open.dingtalk.com/document/orgapp/custom-robot-access (20 a minute, then silence for ten minutes).
    """
    text = _text(message, "dingtalk", "[lease] %s\n" % _title(message))
    url = str(channel["url"])
    if channel.get("secret"):
        stamp = str(int(now_unix * 1000))
        sign = _signed(str(channel["secret"]), "%s\n%s" % (stamp, channel["secret"]))
        url += ("&" if "?" in url else "?") + urllib.parse.urlencode({"timestamp": stamp, "sign": sign})
    return _post_json(url, {"msgtype": "text", "text": {"content": text}})


def _wecom(channel: Fields, message: Fields, now_unix: float) -> Post:
    """Post markdown of at most 4,096 bytes, 20 a minute: https://developer.work.weixin.qq.com/document/path/91770"""
    text = _text(message, "wecom", "**%s**\n" % _title(message)).replace("<@", "@")
    return _post_json(channel["url"], {"msgtype": "markdown", "markdown": {"content": text}})


def _by_code(name: str, hurried: Mapping[int, float]) -> Callable[[Answer], None]:
    """Judge by a code in the body, where 0 is success; some codes mean too many requests, and how long to wait."""

    def judge(answer: Answer) -> None:
        taken(answer)
        said = _object(answer)
        code = said.get(name, said.get("StatusCode"))  # Feishu's older answers have StatusCode
        if code == 0 and code is not False:
            return
        words = said.get("errmsg") or said.get("msg") or said.get("StatusMessage") or "no word"
        wait_s = hurried.get(code, 0.0) if isinstance(code, int) else 0.0
        raise Trouble("%s %s: %s" % (name, code, words), bool(wait_s), wait_s)

    return judge


def _judge_slack(answer: Answer) -> None:
    taken(answer)
    if answer.body.strip() != b"ok":
        raise Trouble("the answer is not ok: %s" % answer.body.decode("utf-8", "replace").strip())


def _judge_telegram(answer: Answer) -> None:
    if answer.status >= 500:
        taken(answer)
    said = _object(answer)
    if said.get("ok") is True:
        return
    more = said.get("parameters")
    wait = more.get("retry_after", 0) if isinstance(more, dict) else 0
    wait_s = float(wait) if isinstance(wait, (int, float)) else 0.0
    hurried = said.get("error_code") == 429 or answer.status == 429
    words = "error %s: %s" % (said.get("error_code", answer.status), said.get("description", ""))
    raise Trouble(words, hurried, wait_s)


VENDORS: Dict[str, Vendor] = {
    "webhook": Vendor(_webhook, taken),
    "ntfy": Vendor(_ntfy, taken),
    "slack": Vendor(_slack, _judge_slack),
    "telegram": Vendor(_telegram, _judge_telegram),
    "feishu": Vendor(_feishu, _by_code("code", {11232: _MINUTE_S, 9499: _MINUTE_S})),
    "dingtalk": Vendor(_dingtalk, _by_code("errcode", {130101: 10 * _MINUTE_S, 660026: 10 * _MINUTE_S})),
    "wecom": Vendor(_wecom, _by_code("errcode", {45009: _MINUTE_S, 45033: _MINUTE_S, -1: 1.0})),
}


def _signed(key: str, text: str) -> str:
    mac = hmac.new(key.encode("utf-8"), text.encode("utf-8"), hashlib.sha256)
    return base64.b64encode(mac.digest()).decode("ascii")


def _post_json(url: str, value: Mapping[str, Any]) -> Post:
    return Post(url, _utf8(json.dumps(value, ensure_ascii=False)), _JSON)


def _object(answer: Answer) -> Dict[str, Any]:
    """Read the vendor's answer as an object; a captive portal's login page is none."""
    try:
        said = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Trouble("HTTP %d, but no answer of this vendor" % answer.status)
    return said


def _bearer(channel: Fields) -> Dict[str, str]:
    return {"Authorization": "Bearer %s" % channel["token"]} if channel.get("token") else {}


def _title(message: Fields) -> str:
    line = " ".join(_printable(str(message.get("title", ""))).split())
    return cut(line, _TITLE_BYTES)


def _text(message: Fields, kind: str, before: str = "") -> str:
    what = KINDS[kind]
    return cut(before + _printable(str(message.get("text", ""))), what.limit, what.counts)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _ascii(text: str) -> str:
    """Encode a header value: latin-1 at most; RFC 2047 carries the rest."""
    if all(32 <= ord(char) < 127 for char in text):
        return text
    return "=?UTF-8?B?%s?=" % base64.b64encode(_utf8(text)).decode("ascii")
