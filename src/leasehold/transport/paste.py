"""Read the ssh command that a provider's console shows. Only an address and a key file are taken from it.

Pasted text is never run or passed on as an option: what could execute or reroute is refused, the rest is listed.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from leasehold.errors import UserError

from .openssh import SshAddress

_COMMAND = re.compile(r"(?<![A-Za-z0-9_.@-])ssh(?:\.exe)?\s+(?=\S)")
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*\Z")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
_HOST_PORT = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d+))?\Z")
_CLOSES = {"`": "`", "'": "'", '"': '"', "“": "”", "‘": "’", "(": ")"}
_QUOTES = "`'\"“”‘’"

# Letters as in ssh(1): these take a value, every other letter takes none.
_TAKE_VALUE = "BbcDEeFIiJLlmOoPpQRSWw"
_LETTERS_EXECUTE = {
    "E": "writes a file on this machine",
    "F": "reads another config file",
    "I": "loads a library",
    "J": "goes through another host",
    "S": "joins another connection's socket",
}
_KEYS_EXECUTE = {
    "proxycommand", "localcommand", "permitlocalcommand", "knownhostscommand", "remotecommand", "include", "match",
    "pkcs11provider", "securitykeyprovider", "smartcarddevice", "xauthlocation", "controlpath", "proxyusefdpass",
}  # fmt: skip
_KEYS_REROUTE = {"proxyjump", "hostname", "hostkeyalias"}
_ALIAS_HINT = "put it under an alias in ~/.ssh/config, where you decide what runs, and add that alias"


@dataclass(frozen=True)
class PastedSsh:
    """The destination of a pasted command, and the parts that are not used."""

    user: str
    host: str
    port: int
    identity: str
    options_ignored: tuple[str, ...]

    @property
    def address(self) -> SshAddress:
        """Return the address for the transport; the key file is chosen by a caller that can look for it."""
        return SshAddress(self.host, self.user, self.port, self.identity)


def parse_paste(text: str) -> PastedSsh:
    """Read `ssh …` with any text around it, or [user@]host[:port], or an alias."""
    for line in text.splitlines():
        if found := _COMMAND.search(line):
            quote = line[found.start() - 1 : found.start()]
            closed = line[found.end() :].partition(_CLOSES[quote])[0] if quote in _CLOSES else line[found.end() :]
            return _command(_words(closed))
    words = _words(text.strip().lstrip("$>#").strip(_QUOTES + " "))
    if not words:
        raise _bad("", "nothing was pasted")
    user, host, port = _destination(words[0].removeprefix("ssh:") if "://" not in words[0] else words[0])
    return PastedSsh(user, host, port, "", _trailing(words[1:]))


def _command(words: list[str]) -> PastedSsh:
    found: dict[str, str] = {}
    ignored: list[str] = []
    rest = iter(words)
    target = _options(rest, found, ignored)
    if not target:
        raise _bad("", "the command names no host")
    trailing = _options(rest, found, ignored)  # ssh reads options on both sides of the host
    user, host, port = _destination(target)
    return PastedSsh(
        user=_checked_user(found["user"]) if "user" in found else user,
        host=host,
        port=_checked_port(found["port"]) if "port" in found else port,
        identity=found.get("identity", ""),
        options_ignored=(*ignored, *_trailing([trailing] if trailing else [])),
    )


def _options(rest: Iterator[str], found: dict[str, str], ignored: list[str]) -> str:
    """Read options up to the first word that is none, as getopt does; return that word."""
    for word in rest:
        if word == "--":
            return next(rest, "")
        if not word.startswith("-") or word == "-":
            return word
        if word.startswith("--"):
            raise _bad(word, "is no option of ssh", "paste the ssh command itself")
        _cluster(word[1:], rest, found, ignored)
    return ""


def _cluster(letters: str, rest: Iterator[str], found: dict[str, str], ignored: list[str]) -> None:
    """Read one word of letters: -Np22 is -N and -p 22."""
    for place, letter in enumerate(letters):
        if letter not in _TAKE_VALUE:
            ignored.append(f"-{letter}")
            continue
        value = letters[place + 1 :] or next(rest, "")
        if not value:
            raise _bad(f"-{letter}", "lacks its value")
        return _valued(letter, value, found, ignored)
    return None


def _valued(letter: str, value: str, found: dict[str, str], ignored: list[str]) -> None:
    if letter in _LETTERS_EXECUTE:
        raise _refused(f"-{letter}", _LETTERS_EXECUTE[letter])
    if letter == "o":
        return _keyword(value, found, ignored)
    if letter in "pli":
        return _take({"p": "port", "l": "user", "i": "identity"}[letter], value, found)
    return ignored.append(f"-{letter} {value}")


def _keyword(text: str, found: dict[str, str], ignored: list[str]) -> None:
    """Read -o KEY=VALUE; only port, user and key file are used."""
    key, _, value = re.sub(r"\s*=\s*|\s+", "=", text.strip(), count=1).partition("=")
    low = key.lower()
    if low in _KEYS_EXECUTE:
        raise _refused(f"-o {key}", "can run a program on this machine")
    if low in _KEYS_REROUTE:
        raise _refused(f"-o {key}", "goes somewhere else than the command says")
    used = {"port": "port", "user": "user", "identityfile": "identity"}.get(low)
    if used:
        return _take(used, value.strip("\"'"), found)
    return ignored.append(f"-o {key}={value}")


def _take(what: str, value: str, found: dict[str, str]) -> None:
    if what == "identity" and (value.startswith("-") or not value.isprintable()):
        raise _bad("-i", "does not name a key file")
    found.setdefault(what, value)  # ssh, too, keeps the first


def _destination(word: str) -> tuple[str, str, int]:
    """Read [user@]host[:port] or ssh://…; a bare IPv6 address needs no brackets."""
    word = word.removeprefix("ssh://").rstrip("/") if word.startswith("ssh://") else word
    word = word.strip(_QUOTES).rstrip(",;，；。")
    user, at, where = word.rpartition("@")
    user = _checked_user(user) if at else ""
    if where.count(":") > 1 and not where.startswith("["):
        return user, _checked_six(where), 0
    place = _HOST_PORT.match(where)
    if not place:
        raise _bad(word, "is not an ssh address")
    host = _checked_six(place["six"]) if place["six"] is not None else place["host"]
    if place["six"] is None and not _HOST.match(host):
        raise _bad(word, "is not an ssh address")
    return user, host, _checked_port(place["port"]) if place["port"] else 0


def _checked_six(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text)) if "%" not in text else _no_scope(text)
    except ValueError:
        raise _bad(text, "is not an ssh address") from None


def _no_scope(text: str) -> str:
    raise _bad(text, "names an interface of this machine", _ALIAS_HINT)


def _checked_user(user: str) -> str:
    if not _USER.match(user):
        raise _bad(user, "is not a user name")
    return user


def _checked_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65535):
        raise _bad(text, "is not a port")
    return int(text)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an apostrophe in the text behind the command
        return text.split()


def _trailing(words: list[str]) -> tuple[str, ...]:
    """Report that something followed, not what: consoles print passwords there."""
    return ("the text behind the address",) if words else ()


def _refused(option: str, why: str) -> UserError:
    return UserError("box.paste_refused", f"the pasted command's {option} {why}; not taken", hint=_ALIAS_HINT)


def _bad(part: str, why: str, hint: str = "") -> UserError:
    shown = f"{part!r} " if part else ""
    return UserError(
        "box.bad_address",
        f"{shown}{why}",
        hint=hint or "paste the console's ssh command, or write [user@]host[:port] or an alias of your ssh config",
    )
