"""The notice channels: every kind as data, read by both ends and by the docs."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Tuple

BYTES, UTF16 = "bytes", "utf16"  # the unit of a limit


class Field(NamedTuple):
    """One setting of a channel."""

    name: str
    what: str
    secret: bool = False
    needed: bool = False
    default: str = ""
    one_of: Tuple[str, ...] = ()


class Kind(NamedTuple):
    """One vendor's channel: its fields, its text limit, and where a person gets such a channel."""

    name: str
    fields: Tuple[Field, ...]
    limit: int
    how: str
    counts: str = BYTES

    def field(self, name: str) -> Field:
        """Find a field by name."""
        return next(field for field in self.fields if field.name == name)


def _url(what: str) -> Field:
    return Field("url", what, secret=True, needed=True)


_TOKEN = Field("token", "sent as Authorization: Bearer", secret=True)

# Limits were read in November 2026 at the addresses beside the senders (caretaker/notices/vendors.py). Feishu and
# DingTalk limit the whole request to 20 kB: 9000 bytes of text stay below that even where every byte must be escaped.
KINDS: Dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("webhook", (_url("where the message is posted as JSON"), _TOKEN), 60000, "any server of your own"),
        Kind(
            "ntfy",
            (_url("https://ntfy.sh/TOPIC; the topic is as good as a password"), _TOKEN),
            4096,
            "install the ntfy app and subscribe to a topic that nobody guesses",
        ),
        Kind(
            "slack",
            (_url("https://hooks.slack.com/services/…"),),
            3000,
            "api.slack.com/apps: Create App, Incoming Webhooks, Add New Webhook to Workspace",
            UTF16,
        ),
        Kind(
            "telegram",
            (
                Field("token", "what @BotFather gave you", secret=True, needed=True),
                Field("chat_id", "a number, or @channelname", needed=True),
                Field("url", "a Bot API server of your own", default="https://api.telegram.org"),
            ),
            4096,
            "write /newbot to @BotFather, write to your bot once, and read chat.id at /getUpdates",
            UTF16,
        ),
        Kind(
            "feishu",
            (
                _url("https://open.feishu.cn/open-apis/bot/v2/hook/… (Lark: open.larksuite.com)"),
                Field("secret", "the signing key, where the bot verifies signatures", secret=True),
            ),
            9000,
            "group settings, Bots, Add Bot, Custom Bot; choose signature verification",
        ),
        Kind(
            "dingtalk",
            (
                _url("https://oapi.dingtalk.com/robot/send?access_token=…"),
                Field("secret", "the SEC… key, where the robot signs", secret=True),
            ),
            9000,
            "group settings, robots, custom; choose signing (加签), or the keyword `lease`",
        ),
        Kind(
            "wecom",
            (_url("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…"),),
            4096,
            "group, add a group robot (群机器人), copy its webhook address",
        ),
        Kind(
            "smtp",
            (
                Field("host", "your mail server", needed=True),
                Field("to", "who gets the mail; several with commas", needed=True),
                Field("from", "who it comes from; left out, `user` or the first of `to`"),
                Field(
                    "security", "how the line is made private", default="starttls", one_of=("starttls", "ssl", "none")
                ),
                Field("port", "left out: 587 with starttls, 465 with ssl, 25 with none"),
                Field("user", "whom to log in as"),
                Field("password", "often an app password; needs starttls or ssl", secret=True),
            ),
            60000,
            "your mail provider's page on SMTP",
        ),
    )
}


def secrets_of(channel: Mapping[str, Any]) -> Tuple[str, ...]:
    """List the values of a channel that must stay secret, longest first."""
    kind = KINDS.get(str(channel.get("kind")))
    names = [field.name for field in kind.fields if field.secret] if kind else set(channel) - {"name", "kind"}
    values = {str(channel[name]) for name in names if channel.get(name)}
    return tuple(sorted(values, key=len, reverse=True))


def cut(text: str, limit: int, counts: str = BYTES) -> str:
    """Shorten a text to a vendor's limit, never inside a character; a cut is marked."""
    if _size(text, counts) <= limit:
        return text
    mark = " …"
    room = limit - _size(mark, counts)
    low, high = 0, len(text)
    while low < high:  # sizes grow with the text, so halving finds the longest that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle], counts) <= room else (low, middle - 1)
    return text[:low].rstrip() + mark


def _size(text: str, counts: str) -> int:
    if counts == UTF16:  # a character beyond the first plane counts twice
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))
