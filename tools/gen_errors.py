"""Write docs/errors.md: every error code that the source can raise, found by reading it."""

from __future__ import annotations

import ast
import sys

from written import ROOT, written

from leasehold import errors
from leasehold.transport.openssh import MEANINGS

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.LeaseholdError) and kind is not errors.LeaseholdError
}
BOX_SIDE = "Refused"


def page() -> str:
    """Format the page."""
    lines = [
        "# Error codes",
        "",
        "Generated from the source by `make docs`. Every error prints its code, what was seen and what to do;",
        "`--json` prints the same as an object. The exit code shows who must act.",
        "",
        "| exit | class | who must act |",
        "|---|---|---|",
    ]
    for name, kind in CLASSES.items():
        lines.append(f"| {kind.exit_code} | {name} | {(kind.__doc__ or '').strip()} |")
    lines += ["| 70 | defect | Leasehold itself failed; the traceback is kept in a file that the message names. |", ""]
    lines += ["| code | exit | message |", "|---|---|---|"]
    for code, (exit_code, message) in sorted(found().items()):
        lines.append(f"| `{code}` | {exit_code} | {message} |")
    return "\n".join(lines) + "\n"


def found() -> dict[str, tuple[int, str]]:
    """Collect (code, exit, message) from every constructor call with a literal code."""
    codes: dict[str, tuple[int, str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
                name, first = node.func.id, node.args[0]
                known = name in CLASSES or name == BOX_SIDE
                if known and isinstance(first, ast.Constant) and isinstance(first.value, str):
                    exit_code = CLASSES[name].exit_code if name in CLASSES else errors.BoxError.exit_code
                    told = (exit_code, _spell(node.args[1]))
                    codes[first.value] = max(codes.get(first.value, told), told, key=_telling)
    for _, code, message, _ in MEANINGS:
        codes.setdefault(code, (errors.LinkError.exit_code, message.replace("{box}", "…")))
    return codes


def _telling(said: tuple[int, str]) -> tuple[int, str]:
    """Rank the messages of one code by how many words of their own they have, whatever file they stand in."""
    words = [word for word in said[1].split() if "…" not in word]
    return len(words), said[1]


def _spell(node: ast.expr) -> str:
    """Show a message with its varying parts as ellipses."""
    if isinstance(node, ast.Constant):
        text = str(node.value)
    elif isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant):
        text = str(node.left.value)
        for mark in ("%r", "%s", "%d"):
            text = text.replace(mark, "…")
    else:
        text = "…"
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(written("docs/errors.md", page()))
