"""Prove by reading that the code on rented boxes needs only an old Python and itself.

kit, caretaker and checkpoint (and the unpacker that the transport sends ahead) may import the standard
library of Python 3.8 and the packages of ours named in MAY_IMPORT; vermin must find 3.8 enough for their
syntax and calls. checkpoint may also touch the frameworks named in MAY_TOUCH, inside functions only: at
import time it must work without them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "leasehold"
OLDEST_PYTHON = "3.8"

MAY_IMPORT: dict[str, set[str]] = {
    "__init__.py": set(),
    "transport/unpack.py": set(),
    "kit": {"leasehold.kit"},
    "caretaker": {"leasehold.kit", "leasehold.caretaker"},
    "checkpoint": {"leasehold.kit", "leasehold.checkpoint"},
}
_FRAMEWORKS = {"torch", "numpy", "jax", "ml_dtypes", "transformers", "lightning", "pytorch_lightning", "accelerate"}
MAY_TOUCH = {"checkpoint": _FRAMEWORKS}

# Came to the standard library after 3.8, so sys.stdlib_module_names of this interpreter is too generous.
NEWER_MODULES = {"graphlib", "zoneinfo", "tomllib", "annotationlib", "compression"}


def main() -> int:
    """Check the imports, then let vermin check the rest."""
    rooms = [room for room in MAY_IMPORT if (PACKAGE / room).exists()]
    files = {path: room for room in rooms for path in _sources(PACKAGE / room)}
    if not files:
        print(f"check_onbox: nothing to read under {PACKAGE}", file=sys.stderr)
        return 1
    complaints = [complaint for path, room in files.items() for complaint in check_imports(path, room)]
    for complaint in complaints:
        print(complaint)
    old_enough = check_version(list(files))
    if complaints or not old_enough:
        return 1
    print(f"check_onbox: {len(files)} modules ({', '.join(rooms)}) need only Python {OLDEST_PYTHON}")
    return 0


def check_imports(path: Path, room: str) -> Iterator[str]:
    """Yield the imports that the room may not make."""
    shown = path.relative_to(ROOT)
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    lazy = {id(node) for function in _functions(tree) for node in ast.walk(function)}
    statements = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in statements:
        for name in _imported_names(node, path):
            top = name.partition(".")[0]
            if top in MAY_TOUCH.get(room, set()):
                if id(node) not in lazy:
                    yield f"{shown}:{node.lineno}: imports {name} at import time; do it inside a function"
            elif not _allowed(name, room):
                yield f"{shown}:{node.lineno}: {room} may not import {name}"


def check_version(files: list[Path]) -> bool:
    """Tell whether vermin finds the oldest supported Python enough for these files."""
    vermin = [sys.executable, "-c", "from vermin import main; main()"]  # it has no __main__
    options = [f"-t={OLDEST_PYTHON}-", "--no-tips", "--violations"]
    answer = subprocess.run([*vermin, *options, *map(str, files)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print(answer.stdout + answer.stderr)
    return answer.returncode == 0


def _sources(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _imported_names(node: ast.Import | ast.ImportFrom, path: Path) -> list[str]:
    """Return the absolute dotted names a statement imports; `from leasehold import x` means leasehold.x."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = node.module or ""
    if node.level:
        above = path.relative_to(PACKAGE.parent).parts[: -node.level]
        module = ".".join([*above, *filter(None, [node.module])])
    return [f"leasehold.{alias.name}" for alias in node.names] if module == "leasehold" else [module]


def _allowed(name: str, room: str) -> bool:
    top = name.partition(".")[0]
    if top == "leasehold":
        return any(name == own or name.startswith(own + ".") for own in MAY_IMPORT[room])
    return top in sys.stdlib_module_names and top not in NEWER_MODULES


if __name__ == "__main__":
    sys.exit(main())
