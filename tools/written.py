"""Write a generated page, or say how it drifted."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def written(name: str, text: str) -> int:
    """Write the page; with --check on the command line only compare, and return 1 on drift."""
    path = ROOT / name
    if "--check" not in sys.argv:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return 0
    old = path.read_text("utf-8") if path.exists() else ""
    if old == text:
        return 0
    diff = difflib.unified_diff(old.splitlines(), text.splitlines(), name, f"{name} (generated)", lineterm="")
    print("\n".join(list(diff)[:40]))
    print(f"{name} has drifted: run `make docs`")
    return 1
