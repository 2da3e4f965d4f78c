"""A FIDO security key in software, which claims whatever touch it is told to claim.

It writes SSHSIG signatures (OpenSSH's PROTOCOL.sshsig and PROTOCOL.u2f) that `ssh-keygen -Y verify` accepts.
The curves are computed slowly and without protection against timing: for tests and for nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import List, Optional, Tuple

PRESENT, VERIFIED = 0x01, 0x04
SK_ED25519 = "sk-ssh-ed25519@openssh.com"
SK_ECDSA = "sk-ecdsa-sha2-nistp256@openssh.com"
WEBAUTHN = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
_APPLICATION = b"ssh:"
_CA_NAME = b"ssh-ed25519"


def text(value: bytes) -> bytes:
    """Encode an SSH string: its length, then its bytes."""
    return struct.pack(">I", len(value)) + value


def armor(blob: bytes) -> bytes:
    """Write a signature as ssh-keygen does."""
    coded = base64.b64encode(blob).decode()
    lines = [coded[start : start + 70] for start in range(0, len(coded), 70)]
    return ("-----BEGIN SSH SIGNATURE-----\n%s\n-----END SSH SIGNATURE-----\n" % "\n".join(lines)).encode()


def to_sign(message: bytes, namespace: str) -> bytes:
    """What an SSHSIG signature covers."""
    return b"SSHSIG" + text(namespace.encode()) + text(b"") + text(b"sha512") + text(hashlib.sha512(message).digest())


def sshsig(public: bytes, namespace: str, signature: bytes) -> bytes:
    """Put key, namespace and signature together."""
    head = b"SSHSIG" + struct.pack(">I", 1)
    return head + text(public) + text(namespace.encode()) + text(b"") + text(b"sha512") + text(signature)


class Ed25519SecurityKey:
    """An sk-ssh-ed25519 key."""

    kind = SK_ED25519

    def __init__(self, seed: bytes = b"k" * 32) -> None:
        self.signer = Ed25519(seed)
        self.blob = text(self.kind.encode()) + text(self.signer.public) + text(_APPLICATION)

    @property
    def line(self) -> str:
        """The key as it stands in allowed_signers."""
        return "%s %s" % (self.kind, base64.b64encode(self.blob).decode())

    def sign(
        self, message: bytes, namespace: str, flags: int, counter: int = 7, public: Optional[bytes] = None
    ) -> bytes:
        """Sign as a key whose person did what the flags say."""
        rest = struct.pack(">BI", flags, counter)
        covered = hashlib.sha256(to_sign(message, namespace)).digest()
        made = self.signer.sign(hashlib.sha256(_APPLICATION).digest() + rest + covered)
        return sshsig(public or self.blob, namespace, text(self.kind.encode()) + text(made) + rest)

    def certificate(self, ca: "Ed25519", principal: str, options: Tuple[str, ...] = ()) -> bytes:
        """The key, certified for a person by an ssh-ed25519 authority; options are critical ones without a value."""
        critical = b"".join(text(name.encode()) + text(b"") for name in sorted(options))
        body = b"".join(
            (
                text(b"sk-ssh-ed25519-cert-v01@openssh.com"), text(b"n" * 32), text(self.signer.public),
                text(_APPLICATION), struct.pack(">QI", 1, 1), text(b"test"), text(text(principal.encode())),
                struct.pack(">QQ", 0, 2**64 - 1), text(critical), text(b""), text(b""),
                text(text(_CA_NAME) + text(ca.public)),
            )
        )  # fmt: skip
        return body + text(text(_CA_NAME) + text(ca.sign(body)))


class EcdsaSecurityKey:
    """An sk-ecdsa-sha2-nistp256 key, also one that a browser asks."""

    kind = SK_ECDSA

    def __init__(self, secret: int = 0x1234567890ABCDEF << 128 | 99) -> None:
        self.secret = secret
        x, y = _p256_times(secret, _P256_G)
        point = b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
        self.blob = text(self.kind.encode()) + text(b"nistp256") + text(point) + text(_APPLICATION)

    @property
    def line(self) -> str:
        """The key as it stands in allowed_signers."""
        return "%s %s" % (self.kind, base64.b64encode(self.blob).decode())

    def sign(self, message: bytes, namespace: str, flags: int, counter: int = 7) -> bytes:
        """Sign as a key whose person did what the flags say."""
        rest = struct.pack(">BI", flags, counter)
        covered = hashlib.sha256(to_sign(message, namespace)).digest()
        made = self._ecdsa(hashlib.sha256(_APPLICATION).digest() + rest + covered)
        return sshsig(self.blob, namespace, text(self.kind.encode()) + text(made) + rest)

    def sign_in_browser(self, message: bytes, namespace: str, flags: int, origin: str, counter: int = 7) -> bytes:
        """Sign as a key that a web page asked."""
        asked = base64.urlsafe_b64encode(to_sign(message, namespace)).decode().rstrip("=")
        client = (
            '{"type":"webauthn.get","challenge":"%s","origin":"%s","crossOrigin":false}' % (asked, origin)
        ).encode()
        rest = struct.pack(">BI", flags, counter)
        made = self._ecdsa(hashlib.sha256(_APPLICATION).digest() + rest + hashlib.sha256(client).digest())
        tail = text(origin.encode()) + text(client) + text(b"")
        return sshsig(self.blob, namespace, text(WEBAUTHN.encode()) + text(made) + rest + tail)

    def _ecdsa(self, data: bytes) -> bytes:
        digest = hashlib.sha256(data).digest()
        k = int.from_bytes(hashlib.sha512(self.secret.to_bytes(32, "big") + digest).digest(), "big") % _P256_N
        r = _p256_times(k, _P256_G)[0] % _P256_N
        s = pow(k, -1, _P256_N) * (int.from_bytes(digest, "big") + r * self.secret) % _P256_N
        return _mpint(r) + _mpint(s)


class Ed25519:
    """A plain Ed25519 signer (RFC 8032)."""

    def __init__(self, seed: bytes) -> None:
        spread = hashlib.sha512(seed).digest()
        self._scalar = int.from_bytes(spread[:32], "little") & ((1 << 254) - 8) | (1 << 254)
        self._prefix = spread[32:]
        self.public = _compressed(_times(self._scalar, _BASE))

    def sign(self, data: bytes) -> bytes:
        """Sign bytes."""
        r = int.from_bytes(hashlib.sha512(self._prefix + data).digest(), "little") % _ORDER
        first = _compressed(_times(r, _BASE))
        h = int.from_bytes(hashlib.sha512(first + self.public + data).digest(), "little") % _ORDER
        return first + ((r + h * self._scalar) % _ORDER).to_bytes(32, "little")


# ---------------------------------------------------------------- edwards25519, in extended coordinates

_Point = Tuple[int, int, int, int]
_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_BASE_Y = 4 * pow(5, _P - 2, _P) % _P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def _add(a: _Point, b: _Point) -> _Point:
    p, q = (a[1] - a[0]) * (b[1] - b[0]) % _P, (a[1] + a[0]) * (b[1] + b[0]) % _P
    c, d = 2 * a[3] * b[3] * _D % _P, 2 * a[2] * b[2] % _P
    e, f, g, h = q - p, d - c, d + c, q + p
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _times(scalar: int, point: _Point) -> _Point:
    total: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    return total


def _compressed(point: _Point) -> bytes:
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


# ---------------------------------------------------------------- NIST P-256, affine

_P256 = 2**256 - 2**224 + 2**192 + 2**96 - 1
_P256_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_P256_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)


def _p256_add(a: Tuple[int, int], b: Tuple[int, int]) -> Tuple[int, int]:
    if a == b:
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, _P256) % _P256
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, _P256) % _P256
    x = (slope * slope - a[0] - b[0]) % _P256
    return x, (slope * (a[0] - x) - a[1]) % _P256


def _p256_times(scalar: int, point: Tuple[int, int]) -> Tuple[int, int]:
    totals: List[Tuple[int, int]] = []
    while scalar:
        if scalar & 1:
            totals.append(point)
        point, scalar = _p256_add(point, point), scalar >> 1
    total = totals[0]
    for part in totals[1:]:
        total = _p256_add(total, part)
    return total


def _mpint(value: int) -> bytes:
    return text(value.to_bytes(value.bit_length() // 8 + 1, "big"))
