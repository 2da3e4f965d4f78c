"""The platform profiles: the shipped ones, then your own overlays, then the project's."""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from leasehold.errors import HomeError, LeaseholdError, UserError
from leasehold.model.platform.platform_signs import PlatformSigns
from leasehold.model.platform.profile import Profile

from .fact_lines import key_lines, line_of
from .fact_reader import Reader
from .fact_yaml import read_facts
from .profile_guard import guard
from .profile_merge import merge
from .profile_parse import parse_profile
from .sign_parse import SIGN_KEYS, parse_signs, parse_sources, some_data, some_keys

_MOST_LINKS = 8


@dataclass(frozen=True)
class _Leaf:
    """One file's data, before it is merged over what it extends."""

    name: str
    data: dict[str, Any]
    file: str
    shipped: bool


@dataclass(frozen=True)
class Shelf:
    """Profiles by id; folders of overlays are applied in order, a later one wins, the project's last.

    A project's files make facts more cautious, never less: relaxed facts are listed in `relaxed` and not used.
    """

    overlays: tuple[Path, ...] = ()
    project: tuple[Path, ...] = ()
    folder: Path | None = None  # read in place of the shipped profiles

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
            return self._guarded(profile)
        except (ValueError, RecursionError) as error:
            raise _damaged(leaves[-1], error) from None

    def signs(self) -> tuple[PlatformSigns, ...]:
        """Read every platform's signs; a file of yours that cannot be read is reported when that platform is loaded."""
        found = []
        own = self._own()
        known = own.names()
        for name in self.names():
            shelf = (
                own if name in known else self
            )  # a project's file does not change how a known platform is recognised
            with contextlib.suppress(LeaseholdError, ValueError, RecursionError):
                at = Reader(shelf._laid(shelf._leaves(name, only=SIGN_KEYS), name, 0, SIGN_KEYS)[0], "")
                found.append(PlatformSigns(name, at.text("title"), parse_signs(at, parse_sources(at))))
        return tuple(found)

    def _own(self) -> Shelf:
        """Load the profile without the project's files."""
        return Shelf(self.overlays, (), self.folder)

    def _guarded(self, profile: Profile) -> Profile:
        """Check a profile that the project's files contribute to against the facts without them."""
        foreign = {str(file) for file in _listed(self.project)} & set(profile.origin)
        if not foreign:
            return profile
        own = self._own()
        base = self._base_of(profile.id, own)
        defines = profile.id not in own.names()
        used, found = guard(own.load(base) if base else None, profile, defines=defines)
        lines = {file: key_lines(_text(Path(file))) for file in profile.origin if file in foreign}
        return replace(used, relaxed=tuple(item.at(_where(lines, item.way)) for item in found))

    def _base_of(self, name: str, own: Shelf) -> str:
        """Name the nearest profile below this one that exists without the project; empty if there is none."""
        known = own.names()
        for _ in range(_MOST_LINKS):
            if name in known or not name:
                return name
            leaves = self._leaves(name)
            name = str(leaves[0].data.get("extends") or "") if leaves else ""
        return ""

    def _leaves(self, name: str, only: tuple[str, ...] = ()) -> list[_Leaf]:
        """Find every file of this name, the shipped one first; only some of its keys are read if requested."""
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
        """Merge the files: a file of a shipped name corrects it, `extends` names another base."""
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
        return _listed((*self.overlays, *self.project))


SHIPPED = Shelf()


def names() -> list[str]:
    """List the shipped platforms."""
    return SHIPPED.names()


def load(name: str) -> Profile:
    """Load a profile as shipped."""
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


def _listed(folders: tuple[Path, ...]) -> list[Path]:
    return [file for folder in folders if folder.is_dir() for file in sorted(folder.glob("*.yaml"))]


def _where(lines: dict[str, dict[tuple[str, ...], int]], way: tuple[str, ...]) -> str:
    """Name the file and line that states a key, the last file that does; else the nearest key above it."""
    for file in reversed(lines):
        if way in lines[file]:
            return f"{file}:{lines[file][way]}"
    for file in reversed(lines):
        if line := line_of(lines[file], way):
            return f"{file}:{line}"
    return next(reversed(lines))


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
