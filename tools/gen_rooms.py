"""Write the tree of rooms into ARCHITECTURE.md, from the first line of each package's docstring."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from written import ROOT, written

PAGE = "ARCHITECTURE.md"
SOURCES = ROOT / "src" / "leasehold"
FLOORS = (
    "kit",
    "caretaker",
    "checkpoint",
    "model",
    "facts",
    "ledger",
    "transport",
    "doctor",
    "platforms",
    "gates",
    "lifecycle",
    "rehearsal",
    "api",
    "shells",
)
BEGIN = "<!-- rooms: written by tools/gen_rooms.py from each package's docstring -->\n"
END = "<!-- end of rooms -->\n"
WIDTH = 18
DEEPEST = 1  # rooms inside those are named by their own docstrings


def page() -> str:
    """Return the page with its tree renewed."""
    head, _, rest = (ROOT / PAGE).read_text("utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{tree()}\n{END}{tail}"


def tree() -> str:
    """Format one line for each room, floors from the lowest up."""
    missing = {path.parent.name for path in SOURCES.glob("*/__init__.py")} - set(FLOORS)
    return "".join(_room(SOURCES / name, 0) for name in (*FLOORS, *sorted(missing)))


def _room(folder: Path, depth: int) -> str:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    name = "  " * depth + folder.name + "/"
    own = f"    {name:<{WIDTH}} {said.partition(chr(10))[0]}\n"
    inner = sorted(path.parent for path in folder.glob("*/__init__.py"))
    return own + "".join(_room(room, depth + 1) for room in inner if depth < DEEPEST)


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
