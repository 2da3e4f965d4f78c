"""Keep the house readable: small modules, small functions, names that say something.

Usage: check_sizes.py FOLDER...   Exits 1 and names every place that breaks a limit.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
EMPTY_NAME = re.compile(r"(^|_)(utils?|helpers?|common|misc|managers?)$")


def main(folders: list[str]) -> int:
    """Check every Python file under the folders."""
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    if not files:
        print(f"check_sizes: no Python file under {' '.join(folders) or '(no folder named)'}", file=sys.stderr)
        return 1
    complaints = [complaint for path in files for complaint in check_file(path)]
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print(f"check_sizes: {len(files)} modules within limits")
    return 1 if complaints else 0


def check_file(path: Path) -> Iterator[str]:
    """Yield what is wrong with one file."""
    for part in (*path.parent.parts, path.stem):
        if EMPTY_NAME.search(part.lower()):
            yield f"{path}: the name {part!r} says nothing; name what is inside"
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MODULE_LINES:
        yield f"{path}: {lines} lines; a module has at most {MODULE_LINES}"
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                place = f"{path}:{node.lineno}"
                yield f"{place}: {node.name} has {length} lines; a function has at most {FUNCTION_LINES}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
