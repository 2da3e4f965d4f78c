"""Parse the home's allowed_signers: the part for ssh-keygen, and which keys must prove a PIN or a fingerprint.

ssh-keygen refuses a line with an option that it does not know, so ours are removed before it reads the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Container
from dataclasses import dataclass

VERIFY_REQUIRED, NO_TOUCH_REQUIRED = "verify-required", "no-touch-required"
_OURS = (VERIFY_REQUIRED, NO_TOUCH_REQUIRED)
_BLANK = " \t"


class SignersError(ValueError):
    """A line uses our options and cannot be parsed."""


@dataclass(frozen=True)
class Signer:
    """One line: a key, and our options on it."""

    number: int
    key: bytes
    options: tuple[str, ...]  # our options, in lower case
    cert_authority: bool = False
    line: str = ""  # its text
    name: str = ""  # its principals, as written

    @property
    def mark(self) -> str:
        """Return the hash by which the ledger knows the line."""
        return mark_of(self.line)

    @property
    def kind(self) -> str:
        """Return the key's type."""
        size = int(struct.unpack(">I", self.key[:4])[0])
        return self.key[4 : 4 + size].decode("ascii", "replace")

    @property
    def fingerprint(self) -> str:
        """Return the key's fingerprint as ssh-keygen prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.key).digest()).decode().rstrip("=")

    def made(self, key: bytes, authority: bytes) -> bool:
        """Return whether the line names this key, or the authority that certified it."""
        return self.key == (authority if self.cert_authority else key)


@dataclass(frozen=True)
class AllowedSigners:
    """The parsed allowed_signers file."""

    plain: str  # the same lines without our options: the input of ssh-keygen
    signers: tuple[Signer, ...]

    def lines_of(self, key: bytes, authority: bytes, option: str) -> list[int]:
        """List the numbers of the lines that name a key, or the authority that certified it, and have an option."""
        return [signer.number for signer in self.signers if option in signer.options and signer.made(key, authority)]

    def only(self, marks: Container[str]) -> AllowedSigners:
        """Blank all other lines for ssh-keygen; what they require of a key still applies."""
        kept = {signer.number for signer in self.signers if signer.mark in marks}
        lines = [line if number in kept else "" for number, line in enumerate(self.plain.split("\n"), 1)]
        return AllowedSigners("\n".join(lines), self.signers)


def mark_of(line: str) -> str:
    """Hash a line's text."""
    return hashlib.sha256(line.encode("utf-8", "surrogateescape")).hexdigest()


def parse_signers(content: str) -> AllowedSigners:
    """Parse an allowed_signers file as ssh-keygen does; lines without our options stay as they are."""
    plain, signers = [], []
    for number, line in enumerate(content.split("\n"), 1):
        try:
            kept, signer = _parse_line(line, number)
        except ValueError as error:
            if any(option in line.lower() for option in _OURS):
                raise SignersError(f"line {number}: {error}") from None
            kept, signer = line, None  # ssh-keygen judges it
        plain.append(kept)
        if signer is not None:
            signers.append(signer)
    return AllowedSigners("\n".join(plain), tuple(signers))


def _parse_line(line: str, number: int) -> tuple[str, Signer | None]:
    start = line.lstrip(_BLANK).rstrip("\r")
    if not start or start.startswith("#"):
        return line, None
    people, rest = _principals(start)
    options, key_text = "", rest
    key = _key(rest)
    if key is None:
        options, key_text = _past_options(rest)
        key = _key(key_text)
    if key is None:
        raise ValueError("no public key after the options")
    names = _split(options)
    ours = tuple(name.lower() for name in names if name.lower() in _OURS)
    if not ours:
        kept = line
    else:
        others = ",".join(name for name in names if name.lower() not in _OURS)
        kept = " ".join(part for part in (people, others, key_text) if part)
    authority = any(name.lower() == "cert-authority" for name in names)
    return kept, Signer(number, key, ours, authority, line.strip(), people.strip('"'))


def _principals(line: str) -> tuple[str, str]:
    """Split off the first field, with its quotes."""
    if line.startswith('"'):
        end = line.find('"', 1) + 1
        if not end:
            raise ValueError("a quote is not closed")
        return line[:end], line[end:].lstrip(_BLANK)
    for at, char in enumerate(line):
        if char in _BLANK:
            return line[:at], line[at:].lstrip(_BLANK)
    raise ValueError("no public key")


def _past_options(text: str) -> tuple[str, str]:
    """Split off the options at the first blank outside quotes."""
    quoted = False
    at = 0
    while at < len(text) and (quoted or text[at] not in _BLANK):
        if text.startswith('\\"', at):
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        at += 1
    if quoted:
        raise ValueError("a quote is not closed")
    return text[:at], text[at:].lstrip(_BLANK)


def _split(options: str) -> list[str]:
    """Split options at the commas outside quotes."""
    found, quoted, start, at = [], False, 0, 0
    while at < len(options):
        if options.startswith('\\"', at):
            at += 1
        elif options[at] == '"':
            quoted = not quoted
        elif options[at] == "," and not quoted:
            found.append(options[start:at])
            start = at + 1
        at += 1
    return [*found, options[start:]] if options else []


def _key(text: str) -> bytes | None:
    """Decode `kind base64`, if the base64 names that kind."""
    words = text.replace("\t", " ").split(" ")
    words = [word for word in words if word][:2]
    if len(words) < 2:
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = words[0].encode("utf-8", "replace")
    return blob if blob.startswith(struct.pack(">I", len(kind)) + kind) else None
