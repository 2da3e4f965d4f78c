"""Find the folders from which a command imports the project; on PYTHONPATH they select this very copy."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from leasehold.lifecycle.init.text.source import Source

_ROOTS = ("", "src")


def import_roots(entry: str, as_module: bool, related: Iterable[str], sources: Mapping[str, Source]) -> list[str]:
    """List the folders that an entry needs beside its own, out of the project's root and src."""
    begun = "" if as_module else posixpath.dirname(entry)
    needed = ["src"] if as_module and entry.startswith("src/") else []
    own = _names(begun, sources)
    for path in related:
        for module, _ in sources[path].modules:
            top = module.partition(".")[0]
            if not top or top in own:
                continue
            root = next((root for root in _ROOTS if root != begun and top in _names(root, sources)), None)
            if root is not None and root not in needed:
                needed.append(root)
    return needed


def with_roots(command: str, roots: list[str]) -> str:
    """Put folders of the run's own copy first on PYTHONPATH."""
    if not roots or "PYTHONPATH=" in command:
        return command
    places = ":".join(f"$PWD/{root}" if root else "$PWD" for root in roots)
    return f'PYTHONPATH="{places}:$PYTHONPATH" {command}'


def _names(root: str, sources: Mapping[str, Source]) -> set[str]:
    """List what can be imported from a folder."""
    inside = f"{root}/" if root else ""
    below = [path[len(inside) :] for path in sources if path.startswith(inside)]
    return {path.partition("/")[0] if "/" in path else path.removesuffix(".py") for path in below}
