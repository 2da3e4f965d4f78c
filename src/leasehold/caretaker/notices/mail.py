"""Send a notice by mail: the connection is encrypted before a password goes over it."""

from __future__ import annotations

import email.utils
import smtplib
import ssl
from email.message import EmailMessage
from typing import Any, Dict, List, Mapping

from leasehold.kit.tables.notice_channels import KINDS, cut

from .http_post import Trouble

_TIMEOUT_S = 20.0
_PORTS = {"starttls": 587, "ssl": 465, "none": 25}


def mail(channel: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    """Hand the mail to the server; raises Trouble, or OSError where no server answers."""
    security = str(channel.get("security") or "starttls")
    if security not in _PORTS:
        raise Trouble("security is starttls, ssl or none")
    if channel.get("password") and security == "none":
        raise Trouble("a password is not sent over an open line: use starttls or ssl")
    port = int(channel.get("port") or _PORTS[security])
    private: Dict[str, Any] = {"context": ssl.create_default_context()}
    sort = smtplib.SMTP_SSL if security == "ssl" else smtplib.SMTP
    more = private if security == "ssl" else {}
    try:
        with sort(str(channel["host"]), port, timeout=_TIMEOUT_S, **more) as server:
            if security == "starttls":
                server.starttls(**private)
            if channel.get("user") and channel.get("password"):
                server.login(str(channel["user"]), str(channel["password"]))
            server.send_message(_letter(channel, message))
    except smtplib.SMTPResponseException as error:  # a refused login among them
        raise Trouble(_said(error.smtp_code, error.smtp_error), 400 <= error.smtp_code < 500) from None
    except smtplib.SMTPRecipientsRefused as error:
        code, words = next(iter(error.recipients.values()))
        raise Trouble("every recipient was refused: " + _said(code, words), 400 <= code < 500) from None
    except smtplib.SMTPException as error:
        raise Trouble("%s: %s" % (type(error).__name__, error)) from None


def _letter(channel: Mapping[str, Any], message: Mapping[str, Any]) -> EmailMessage:
    to = _addresses(channel["to"])
    letter = EmailMessage()
    letter["Subject"] = cut(" ".join(str(message.get("title", "")).split()), 250)
    letter["From"] = str(channel.get("from") or (channel.get("user") if "@" in str(channel.get("user")) else to[0]))
    letter["To"] = ", ".join(to)
    letter["Date"] = email.utils.localtime()
    if message.get("id"):  # a mail that arrives twice shows once
        letter["Message-ID"] = "<%s@leasehold.invalid>" % "".join(
            c if c.isalnum() or c in "-." else "-" for c in str(message["id"])
        )
    letter["Auto-Submitted"] = "auto-generated"
    text = cut(str(message.get("text", "")), KINDS["smtp"].limit)
    letter.set_content(text, cte="quoted-printable")  # not every server accepts 8-bit text
    return letter


def _addresses(text: Any) -> List[str]:
    found = [word.strip() for word in str(text).split(",") if word.strip()]
    if not found:
        raise Trouble("`to` has no recipient")
    return found


def _said(code: int, words: Any) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
    return "the mail server said %d: %s" % (code, text)
