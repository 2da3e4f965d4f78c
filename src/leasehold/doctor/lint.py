"""Read Python sources for ten mistakes that cost training runs; nothing is imported or executed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError

from .lint_loops import LOOP_RULES
from .lint_ranks import RANK_RULES
from .lint_source import Mark, Module

_SKIPPED = {".git", ".venv", "venv", "__pycache__", "node_modules", "site-packages", ".tox", "build", "dist"}
_LARGEST_BYTES = 2 << 20
_RULES = (*LOOP_RULES, *RANK_RULES)


@dataclass(frozen=True)
class Remark:
    """One suspicious place."""

    path: str
    line: int
    rule: str
    id: str
    what: str
    fix: str
    code: str

    def as_dict(self) -> dict[str, Any]:
        """Return the form for --json."""
        return dict(vars(self))


def lint_paths(paths: Sequence[Path]) -> list[Remark]:
    """Lint files and folders; a file that does not parse is left for Python to report."""
    modules = [module for path in paths for module in _modules(path)]
    remarks = [_remark(module, mark) for module in modules for rule in _RULES for mark in rule(module, modules)]
    return sorted(remarks, key=lambda remark: (remark.path, remark.line, remark.rule))


def _remark(module: Module, mark: Mark) -> Remark:
    lines = module.text.splitlines()
    code = lines[mark.line - 1].strip() if 0 < mark.line <= len(lines) else ""
    return Remark(module.name, mark.line, mark.rule, mark.id, mark.what, mark.fix, code[:160])


def _modules(path: Path) -> Iterator[Module]:
    if not path.exists():
        raise UserError("lint.nothing_there", f"{path} is not there", hint="lease lint FILE or FOLDER")
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    for file in files:
        inside = file.relative_to(path).parts if path.is_dir() else ()
        if _SKIPPED & set(inside) or file.stat().st_size > _LARGEST_BYTES:
            continue
        try:
            yield Module.parse(str(file), file.read_text("utf-8", errors="replace"))
        except (SyntaxError, ValueError, RecursionError, OSError):
            continue
