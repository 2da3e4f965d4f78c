"""The shelf of platform profiles: what ships, then your own overlays, then the project's."""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from leasehold.errors import HomeError, LeaseholdError, UserError
from leasehold.model.platform_signs import PlatformSigns
from leasehold.model.profile import Profile

from .fact_reader import Reader
from .fact_yaml import read_facts
from .profile_merge import merge
from .profile_parse import parse_profile
from .sign_parse import SIGN_KEYS, parse_signs, parse_sources, some_data, some_keys

_MOST_LINKS = 8


@dataclass(frozen=True)
class _Leaf:
    """One file's data, not yet laid over what it extends."""

    name: str
    data: dict[str, Any]
    file: str
    shipped: bool


@dataclass(frozen=True)
class Shelf:
    """Profiles by id; folders of overlays come in order, a later one wins."""

    overlays: tuple[Path, ...] = ()
    folder: Path | None = None  # read in place of the profiles that ship

    def names(self) -> list[str]:
        """List the platforms that have a profile."""
        return sorted({*self._shipped(), *(file.stem for file in self._files())})

    def load(self, name: str) -> Profile:
        """Load one profile by platform id."""
        leaves = self._leaves(name)
        if not leaves:
            near = difflib.get_close_matches(name, self.names(), 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(self.names())}"
            raise UserError("platform.unknown", f"no profile {name!r}", hint=hint)
        try:
            data, origin = self._laid(leaves, name, 0)
            profile = parse_profile(data, origin)
            if profile.id != name:
                raise ValueError(f"it calls itself {profile.id}")
            return profile
        except (ValueError, RecursionError) as error:
            raise _damaged(leaves[-1], error) from None

    def signs(self) -> tuple[PlatformSigns, ...]:
        """Read every platform's signs; a file of yours that cannot be read is told by whoever loads that platform."""
        found = []
        for name in self.names():
            with contextlib.suppress(LeaseholdError, ValueError, RecursionError):
                at = Reader(self._laid(self._leaves(name, only=SIGN_KEYS), name, 0, SIGN_KEYS)[0], "")
                found.append(PlatformSigns(name, at.text("title"), parse_signs(at, parse_sources(at))))
        return tuple(found)

    def _leaves(self, name: str, only: tuple[str, ...] = ()) -> list[_Leaf]:
        """Find every file of this name, the one that ships first; of that, only some keys are read where told."""
        leaves = []
        if name in self._shipped():
            text = self._shelf().joinpath(f"{name}.yaml").read_text("utf-8")
            leaves.append(_leaf(name, some_keys(text, only) if only else text, f"{name}.yaml", True))
        for file in self._files():
            if file.stem == name:
                leaves.append(_leaf(name, _text(file), str(file), False))
        return leaves

    def _laid(
        self, leaves: list[_Leaf], name: str, depth: int, only: tuple[str, ...] = ()
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Lay the files over each other: a file of a shipped name corrects it, `extends` names another base."""
        if depth > _MOST_LINKS:
            raise ValueError(f"extends goes round in circles at {name}")
        data: dict[str, Any] = {}
        origin: tuple[str, ...] = ()
        for leaf in leaves:
            base = leaf.data.get("extends", "")
            if base and base != name:
                below = self._leaves(base, only) if isinstance(base, str) else []
                if not below:
                    raise ValueError(f"extends: there is no profile {base!r}")
                data, origin = self._laid(below, base, depth + 1, only)
                data = {**data, "id": name}
            data = merge(data, some_data(leaf.data, only) if only else leaf.data)
            origin = (*origin, leaf.file)
        return data, origin

    def _shelf(self) -> Traversable:
        return self.folder or resources.files("leasehold.facts").joinpath("profiles")

    def _shipped(self) -> list[str]:
        return sorted(entry.name[:-5] for entry in self._shelf().iterdir() if entry.name.endswith(".yaml"))

    def _files(self) -> list[Path]:
        return [file for folder in self.overlays if folder.is_dir() for file in sorted(folder.glob("*.yaml"))]


SHIPPED = Shelf()


def names() -> list[str]:
    """List the platforms that ship."""
    return SHIPPED.names()


def load(name: str) -> Profile:
    """Load a profile as it ships."""
    return SHIPPED.load(name)


def _leaf(name: str, text: str, file: str, shipped: bool) -> _Leaf:
    leaf = _Leaf(name, {}, file, shipped)
    try:
        data = read_facts(text)
        if not isinstance(data, dict):
            raise ValueError("a profile is a mapping of keys")
        return _Leaf(name, data, file, shipped)
    except ValueError as error:
        raise _damaged(leaf, error) from None


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("platform.overlay_unreadable", f"{file}: {error}", hint="profiles are UTF-8 text") from None


def _damaged(leaf: _Leaf, error: Exception) -> LeaseholdError:
    if leaf.shipped:
        return HomeError("platform.damaged", f"profile {leaf.file}: {error}", hint="reinstall leasehold")
    hint = "lease platforms show NAME shows how a shipped one is written; docs/platforms-own.md explains the keys"
    return UserError("platform.overlay_invalid", f"{leaf.file}: {error}", hint=hint)
