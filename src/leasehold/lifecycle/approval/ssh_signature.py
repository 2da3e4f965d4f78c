"""Parse an SSH signature file (OpenSSH PROTOCOL.sshsig, PROTOCOL.u2f): its key, and the flags of a security key.

Nothing is verified here: `ssh-keygen -Y verify` does that, on `armored` of the very bytes that were parsed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass

PRESENT, VERIFIED = 0x01, 0x04  # flags of an authenticator: it was touched; it checked a PIN or a fingerprint
WEBAUTHN = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
MAX_FILE_BYTES = 64 << 10

_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_MAGIC, _VERSION = b"SSHSIG", 1
_SECURITY_KEYS = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
_CERTIFICATE = "-cert-v01@openssh.com"
# The number of fields of the key itself in a certificate, by the certificate's type without its ending.
_KEY_FIELDS = {
    "ssh-ed25519": 1, "ssh-rsa": 2, "ecdsa-sha2-nistp256": 2, "ecdsa-sha2-nistp384": 2, "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519": 2, "sk-ecdsa-sha2-nistp256": 3,
}  # fmt: skip


class SignatureError(ValueError):
    """These bytes are not a signature that we can judge."""


@dataclass(frozen=True)
class SshSignature:
    """The content of a signature file; it proves something only after ssh-keygen verified it."""

    blob: bytes
    key: bytes  # the public key without a certificate, as in allowed_signers
    key_kind: str
    algorithm: str  # that of the signature; a browser's differs from its key's
    flags: int | None = None  # None: not a security key
    authority: bytes = b""  # the key that signed the certificate, where there is one
    options: tuple[str, ...] = ()  # the certificate's critical options

    @property
    def fingerprint(self) -> str:
        """Return the key's fingerprint as ssh-keygen prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.key).digest()).decode().rstrip("=")

    @property
    def armored(self) -> bytes:
        """Return the parsed bytes as a signature file, so that ssh-keygen reads what we read."""
        coded = base64.b64encode(self.blob)
        lines = [coded[start : start + 70] for start in range(0, len(coded), 70)]
        return b"\n".join([_BEGIN, *lines, _END, b""])


def parse_signature(data: bytes) -> SshSignature:
    """Parse a signature file; SignatureError describes what is wrong with it."""
    blob = _unarmored(data)
    fields = _Fields(blob, "the signature")
    if fields.take(len(_MAGIC), "the magic bytes") != _MAGIC:
        raise SignatureError("it does not begin with SSHSIG")
    version = fields.uint32("the version")
    if version != _VERSION:
        raise SignatureError(f"its version is {version}, known is {_VERSION}")
    public = fields.string("the public key")
    for what in ("the namespace", "the reserved field", "the hash algorithm"):
        fields.string(what)
    signature = fields.string("the signature")
    fields.end()
    key, kind, authority, options = _read_key(public)
    algorithm, flags = _read_flags(signature, kind)
    return SshSignature(blob, key, kind, algorithm, flags, authority, options)


class _Fields:
    """A sequential reader of an SSH structure's fields."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._at, self._name = data, 0, name

    def take(self, count: int, what: str) -> bytes:
        if len(self._data) - self._at < count:
            raise SignatureError(f"{self._name} ends inside {what}")
        self._at += count
        return self._data[self._at - count : self._at]

    def uint32(self, what: str) -> int:
        return int(struct.unpack(">I", self.take(4, what))[0])

    def string(self, what: str) -> bytes:
        return self.take(self.uint32(what), what)

    def name(self, what: str) -> str:
        value = self.string(what)
        if not value or not all(0x21 <= byte <= 0x7E for byte in value):
            raise SignatureError(f"{what} is not a name: {value[:40]!r}")
        return value.decode("ascii")

    def done(self) -> bool:
        return self._at == len(self._data)

    def end(self) -> None:
        if not self.done():
            raise SignatureError(f"{self._name} has {len(self._data) - self._at} bytes after its last field")


def _unarmored(data: bytes) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise SignatureError(f"it is larger than {MAX_FILE_BYTES} bytes")
    lines = data.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n")
    if len(lines) < 3 or lines[0] != _BEGIN or lines[-1] != _END:
        raise SignatureError(f"it is not one block between {_BEGIN.decode()} and {_END.decode()}")
    try:
        return base64.b64decode(b"".join(lines[1:-1]), validate=True)
    except binascii.Error as error:
        raise SignatureError(f"its base64 is damaged: {error}") from None


def _read_key(public: bytes) -> tuple[bytes, str, bytes, tuple[str, ...]]:
    """Return the plain key, its type, and the certificate's authority and critical options."""
    fields = _Fields(public, "the public key")
    kind = fields.name("the key's kind")
    if not kind.endswith(_CERTIFICATE):
        return public, kind, b"", ()
    short = kind[: -len(_CERTIFICATE)]
    if short not in _KEY_FIELDS:
        raise SignatureError(f"certificates of kind {kind} are not supported")
    fields.string("the certificate's nonce")
    parts = [fields.string("the certified key") for _ in range(_KEY_FIELDS[short])]
    fields.take(12, "the certificate's serial number and type")
    fields.string("the certificate's id")
    fields.string("the certificate's principals")
    fields.take(16, "the certificate's dates")
    critical = _Fields(fields.string("the critical options"), "the critical options")
    options = []
    while not critical.done():
        options.append(critical.name("an option's name"))
        critical.string("an option's value")
    fields.string("the extensions")
    fields.string("the reserved field")
    authority = fields.string("the authority's key")
    fields.string("the authority's signature")
    fields.end()
    plain = short + "@openssh.com" if short.startswith("sk-") else short
    key = b"".join(struct.pack(">I", len(part)) + part for part in (plain.encode(), *parts))
    return key, plain, authority, tuple(options)


def _read_flags(signature: bytes, kind: str) -> tuple[str, int | None]:
    """Return the signature's algorithm, and its flags if a security key made it."""
    fields = _Fields(signature, "the signature proper")
    algorithm = fields.name("its algorithm")
    if not kind.startswith("sk-") and not algorithm.startswith(("sk-", "webauthn-")):
        return algorithm, None
    if kind not in _SECURITY_KEYS or algorithm not in (kind, WEBAUTHN):
        raise SignatureError(f"a {algorithm} signature of a {kind} key is not supported")
    fields.string("its numbers")
    flags = fields.take(1, "the flags")[0]
    fields.uint32("the counter")
    if algorithm == WEBAUTHN:
        for what in ("the origin", "the client data", "the extensions"):
            fields.string(what)
    fields.end()
    return algorithm, flags
