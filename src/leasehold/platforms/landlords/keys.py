"""Landlords' API keys: environment variable, system keyring, or a file of the home folder that only its owner can read.

They are read when a landlord is asked and go into a request's header: no screen, ledger, argument list or box has them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.errors import BadKey, HomeError, UserError
from leasehold.kit.files.atomic import write_atomic

KEYRING_SERVICE = "leasehold"
WITHOUT_KEYRING = "LEASEHOLD_NO_KEYRING"  # set: the system keyring is neither read nor written
_FOLDER = "landlord-keys"
_SHAPE = re.compile(r"[!-~]{8,4096}\Z")  # printable ASCII without blanks: what a header can carry


@dataclass(frozen=True)
class Key:
    """An API key, and where it was found; its value is never shown."""

    value: str = field(repr=False)
    where: str

    @property
    def mark(self) -> str:
        """Return a short name of the key that does not reveal it; two keys have two names."""
        return "key-" + hashlib.sha256(self.value.encode("utf-8")).hexdigest()[:12]


@dataclass(frozen=True)
class KeyStore:
    """The keys of one person on this machine."""

    home: Path
    environ: Mapping[str, str]

    def find(self, landlord: str, variables: tuple[str, ...]) -> Key | None:
        """Return the first key that is there: in a variable, in the keyring, in the file."""
        for variable in variables:
            if value := self.environ.get(variable, "").strip():
                return Key(checked(value, f"${variable}"), f"environment variable {variable}")
        if ring := self._ring():
            with _keyring_trouble("read"):
                if value := ring.get_password(KEYRING_SERVICE, landlord):
                    return Key(checked(value, "the keyring"), "system keyring")
        return self._in_file(landlord)

    def need(self, landlord: str, variables: tuple[str, ...]) -> Key:
        """Return the key; BadKey says how to give one."""
        if key := self.find(landlord, variables):
            return key
        raise BadKey(
            "landlord.no_key",
            f"there is no key for {landlord}",
            hint=f"lease landlord login {landlord}, or set {' or '.join(variables)}",
        )

    def store(self, landlord: str, value: str) -> str:
        """Keep a key and return where: the keyring if there is one, else the file."""
        value = checked(value.strip(), "what was typed")
        if ring := self._ring():
            with _keyring_trouble("write"):
                ring.set_password(KEYRING_SERVICE, landlord, value)
                return "system keyring"
        path = self._path(landlord)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(str(path), value.encode("ascii") + b"\n", mode=0o600)
        except OSError as error:
            raise HomeError("landlord.key_unwritable", f"{path}: {error.strerror}", hint="mend the folder") from None
        return str(path)

    def remove(self, landlord: str) -> list[str]:
        """Delete a key from the keyring and from the file; return from where it went."""
        gone = []
        if ring := self._ring():
            with _keyring_trouble("write"):
                if ring.get_password(KEYRING_SERVICE, landlord):
                    ring.delete_password(KEYRING_SERVICE, landlord)
                    gone.append("system keyring")
        with contextlib.suppress(FileNotFoundError):
            self._path(landlord).unlink()
            gone.append(str(self._path(landlord)))
        return gone

    def _path(self, landlord: str) -> Path:
        return self.home / _FOLDER / landlord

    def _in_file(self, landlord: str) -> Key | None:
        path = self._path(landlord)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HomeError("landlord.key_unreadable", f"{path}: {error.strerror}", hint="mend or remove it") from None
        with os.fdopen(fd, "rb") as file:
            mode = os.fstat(fd)
            if mode.st_uid != os.geteuid() or stat.S_IMODE(mode.st_mode) & 0o077:
                raise HomeError(
                    "landlord.key_open",
                    f"{path} can be read by others than you",
                    hint=f"give {landlord} a new key, then: rm {path}; lease landlord login {landlord}",
                )
            return Key(checked(file.read(8192).decode("ascii", "replace").strip(), str(path)), str(path))

    def _ring(self) -> Any:
        """Return the system's keyring, or None: not installed, or no service behind it."""
        if self.environ.get(WITHOUT_KEYRING):
            return None
        try:
            keyring = importlib.import_module("keyring")
            ring = keyring.get_keyring()
        except Exception:  # noqa: BLE001 - somebody else's code, and its backends fail in their own ways
            return None
        return ring if getattr(ring, "priority", 0) > 0 else None


def checked(value: str, where: str) -> str:
    """Return a key that a header can carry, or report its shape; the key itself is not shown."""
    if not _SHAPE.match(value):
        raise UserError(
            "landlord.odd_key",
            f"{where} is not an API key: {len(value)} characters, or blanks or other alphabets among them",
            hint="copy it again from the landlord's page",
        )
    return value


@contextlib.contextmanager
def _keyring_trouble(act: str) -> Any:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - a keyring's backends raise errors of their own; its text may hold a key
        raise HomeError(
            "landlord.keyring",
            f"the system keyring could not be {act}: {type(error).__name__}",
            hint=f"unlock it, or set {WITHOUT_KEYRING}=1 to use a file",
        ) from None
