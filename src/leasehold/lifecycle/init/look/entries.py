"""Find the file that trains: candidates, each with a score, the command that starts it and the reason."""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
from collections.abc import Mapping

from leasehold.lifecycle.init.text.project_facts import Entry, Where
from leasehold.lifecycle.init.text.source import Source

from .code_signs import frameworks
from .roots import import_roots, with_roots
from .shown_commands import Shown

_NAMES = (
    (re.compile(r"train\.py\Z"), 50),
    (re.compile(r"(?:train|pretrain|finetune|fine_tune|sft|dpo)[\w-]*\.py\Z|[\w-]*(?:train|finetune)\.py\Z"), 44),
    (re.compile(r"run_[\w-]+\.py\Z"), 36),
    (re.compile(r"main\.py\Z|__main__\.py\Z"), 30),
    (re.compile(r"run\.py\Z|fit\.py\Z|experiment\.py\Z"), 28),
)
_ASIDE = re.compile(
    r"(?:^|[_/.-])(?:eval\w*|test\w*|infer\w*|predict\w*|demo|serve|export|plot\w*|preprocess\w*|prepare\w*|download\w*|"
    r"convert\w*|setup|conftest|utils?|sample|generate|launch\w*|sweep|slurm)(?:[_.-]|\Z)"
)
_PLAIN_PATH = re.compile(r"[\w./ +@%:,=-]+\Z")
_MODULE = re.compile(r"[\w/-]+\.py\Z", re.ASCII)
# A script that its pages start with a launcher may not run without it; one process until more are stated.
_LAUNCHERS = {
    "torchrun": "torchrun --standalone --nproc_per_node=1",
    "accelerate": "accelerate launch",
    "deepspeed": "deepspeed",
}
_ENOUGH = 25
_MAX_ENTRIES = 8


def find_entries(sources: Mapping[str, Source], shown: list[Shown]) -> tuple[Entry, ...]:
    """Rank the files that could be the training script."""
    entries = []
    for source in sources.values():
        score, why, where = _judge(source, [line for line in shown if line.script == source.path], sources)
        if score >= _ENOUGH and _PLAIN_PATH.match(source.path):
            command = _command(source, shown, sources)
            as_module = bool(re.search(r"\s-m\s", command.partition(".py")[0]))
            roots = import_roots(source.path, as_module, related_to(source.path, sources), sources)
            entries.append(Entry(source.path, with_roots(command, roots), score, why, where))
    entries.sort(key=lambda entry: (-entry.score, entry.path.count("/"), entry.path))
    return tuple(entries[:_MAX_ENTRIES])


def imports_of(source: Source, sources: Mapping[str, Source]) -> list[str]:
    """List the project files that a file imports."""
    folder = posixpath.dirname(source.path)
    found = []
    for module, _ in source.modules:
        bare = module.lstrip(".")
        level = len(module) - len(bare)
        if level:
            base = folder
            for _ in range(level - 1):
                base = posixpath.dirname(base)
            bases = [base]
        else:
            bases = [folder, "", "src"]
        inside = bare.replace(".", "/")
        for base in bases:
            path = posixpath.join(base, inside) if inside else base
            hits = [hit for hit in (f"{path}.py", f"{path}/__init__.py") if hit in sources]
            found += hits
            if hits:
                break
    return found


def related_to(entry: str, sources: Mapping[str, Source], most: int = 200) -> tuple[str, ...]:
    """Return an entry point and the project files that it imports, directly or indirectly."""
    seen, waiting = [entry], [entry]
    while waiting and len(seen) < most:
        for path in imports_of(sources[waiting.pop(0)], sources):
            if path not in seen:
                seen.append(path)
                waiting.append(path)
    return tuple(seen)


def main_guard(source: Source) -> int:
    """Return the line of `if __name__ == "__main__"`, or 0."""
    for node in source.tree.body:
        if isinstance(node, ast.If) and "__name__" in {getattr(part, "id", "") for part in ast.walk(node.test)}:
            return node.lineno
    return 0


def _judge(source: Source, shown: list[Shown], sources: Mapping[str, Source]) -> tuple[int, str, Where]:
    name = posixpath.basename(source.path)
    score = next((points for pattern, points in _NAMES if pattern.match(name)), 0)
    reasons = [f"it is called {name}"] if score else []
    where = Where(source.path)
    guard = main_guard(source)
    used = next(iter(frameworks(source)), None)
    if guard:
        score, where = score + 15, Where(source.path, guard)
        reasons.append("it runs as a script")
    if used:
        score += 20
        reasons.append(f"it imports {used.note}")
    if shown:
        taken = next((line for line in shown if line.usable), shown[0])  # the line that the draft uses
        score, where = score + 25, taken.where
        reasons.append(f"{taken.where} shows how to start it")
    part = posixpath.join(posixpath.dirname(source.path), "__init__.py") in sources and name != "__main__.py"
    if not guard and not shown and part:
        return 0, "", where  # a module of a package: run directly, it would only define things
    if not guard and not shown and not score - 20 * bool(used):
        return 0, "", where
    score -= 3 * source.path.count("/") + (60 if _ASIDE.search(source.path) else 0)
    return score, "; ".join(reasons), where


def _command(source: Source, shown: list[Shown], sources: Mapping[str, Source]) -> str:
    for line in shown:
        if line.script == source.path and line.usable:
            return line.line
    command = _start(source)
    if any(name.endswith("LightningCLI") for _, name in source.calls()):
        return f"{command} fit"
    launchers = [line.line.split()[0] for line in shown if line.script == source.path]
    launcher = next((word for word in launchers if word in _LAUNCHERS), "")
    return command.replace("python ", f"{_LAUNCHERS[launcher]} ", 1) if launcher else command


def _start(source: Source) -> str:
    inside = source.path.removeprefix("src/")
    package = inside.partition("/")[0]
    relative = any(module.startswith(".") for module, _ in source.modules)
    own = {module.partition(".")[0] for module, _ in source.modules}
    if "/" in inside and _MODULE.match(inside) and (relative or package in own):
        return f"python -m {inside.removesuffix('.py').removesuffix('/__main__').replace('/', '.')}"
    return f"python {shlex.quote(source.path)}"
