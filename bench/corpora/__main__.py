"""python -m bench.corpora [--wrap N] [--again TOOL …]: gather, ask every tool, judge, print one table.

Exit 1 when our readers executed, missed, hung, broke, took too much memory or refused more than 1 % of valid files.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .ask import TOOLS, ask_all, trace_folder
from .control import prove_canaries, prove_watch
from .gather import ROOT, SCANNERS_PYTHON, gather
from .judge import File, Outcome, failures, false_alarms, judge, table
from .make_hostile import canaries, wraps
from .opinions import second_opinions

_PLACE = ROOT / ".corpora"
_WRAPPED = 100  # distinct malicious pickles that are wrapped nine ways; --wrap 0 takes all
_AT_ONCE = 2
_LARGEST_WRAPPED = 1 << 20


def main() -> int:
    """Run everything, and say which bars are not reached."""
    parser = argparse.ArgumentParser(prog="python -m bench.corpora", description=__doc__)
    parser.add_argument("--wrap", type=int, default=_WRAPPED, help="how many malicious pickles are wrapped (0: all)")
    parser.add_argument(
        "--again", nargs="*", choices=TOOLS, metavar="TOOL",
        help="take the last run's files, ask these tools again and keep what the others answered",
    )  # fmt: skip
    args = parser.parse_args()
    _PLACE.mkdir(exist_ok=True)
    book = _PLACE / "files.json"
    if args.again is not None and book.exists():
        known = json.loads(book.read_text())
        files, missing = [File(**each) for each in known["files"]], known["missing"]
    else:
        files, missing = _files(args.wrap)
        book.write_text(json.dumps({"files": [vars(each) for each in files], "missing": missing}))
    _say(f"{len(files):,} files")
    prove_watch(_PLACE)
    outcomes = _outcomes(files, TOOLS if args.again is None else args.again)
    seen, refused = second_opinions(files)
    said = f"With torch itself as second opinion {len(refused)} of {seen} valid torch files are refused."
    report = f"{table(outcomes, TOOLS)}\n\n{said}\n{_about(missing)}"
    (_PLACE / "table.md").write_text(report + "\n")
    print(report)
    for line in [*false_alarms(outcomes), *refused]:
        print(f"false alarm: {line}")
    found = failures(outcomes)
    if len(refused) > seen / 100:
        found.append(f"torch's second opinion refuses {len(refused)} of {seen} valid files")
    for line in found:
        print(f"NOT MET: {line}")
    if not found:
        print("every bar is met: executed 0, missed 0, false alarms ≤ 1 %, hang 0, memory ≤ 1 GiB")
    return 1 if found else 0


def _files(most_wrapped: int) -> tuple[list[File], list[str]]:
    """Gather and make all files, and have the stock libraries say what each is."""
    (_PLACE / "truths.jsonl").unlink(missing_ok=True)
    corpora, missing = gather(_PLACE)
    _say(f"{sum(map(len, corpora.values())):,} files of {len(corpora)} corpora")
    truths = _truths([path for paths in corpora.values() for path in paths])
    malicious = _pickles(corpora, truths)
    chosen = malicious if not most_wrapped else malicious[:: max(1, len(malicious) // most_wrapped)]
    _say(f"{len(malicious)} distinct malicious pickles, {len(chosen)} of them wrapped")
    folder = _fresh("wrapped")
    corpora["wrapped nine ways"] = _wrap({path.stem: path.read_bytes() for path in chosen}, folder)
    folder = _fresh("canaries")
    plain = _write_canaries(folder)
    prove_canaries(plain, _PLACE)
    corpora["canaries"] = plain + _wrap({path.stem: path.read_bytes() for path in plain}, folder)
    truths.update(_truths(corpora["wrapped nine ways"] + corpora["canaries"]))
    files = [_file(name, path, truths[str(path)]) for name, paths in corpora.items() for path in paths]
    return files + _valid_files(), missing


def _truths(paths: Sequence[Path]) -> dict[str, str]:
    """What the stock libraries would do; a file that breaks even the question is an attack."""
    answers = ask_all("stock", paths, _PLACE)
    (_PLACE / "truths.jsonl").open("a").writelines(json.dumps(answer) + "\n" for answer in answers.values())
    return {path: answer["views"]["truth"][0] if answer["views"] else "attack" for path, answer in answers.items()}


def _pickles(corpora: dict[str, list[Path]], truths: dict[str, str]) -> list[Path]:
    """Each malicious file that is a pickle and nothing else, once."""
    found: dict[bytes, Path] = {}
    for paths in corpora.values():
        for path in paths:
            content = path.read_bytes()
            bare = len(content) < _LARGEST_WRAPPED and not content.startswith((b"PK", b"\x93NUMPY", b"7z"))
            if bare and truths[str(path)] == "attack":
                found.setdefault(content, path)
    return list(found.values())


def _wrap(pickles: dict[str, bytes], folder: Path) -> list[Path]:
    made = []
    for name, payload in pickles.items():
        for way, write in wraps(payload):
            path = folder / f"{name}-{way}"
            write(path)
            made.append(path)
    return made


def _write_canaries(folder: Path) -> list[Path]:
    made = []
    for name, payload in canaries(trace_folder(_PLACE)).items():
        path = folder / f"{name}.pkl"
        path.write_bytes(payload)
        made.append(path)
    return made


def _valid_files() -> list[File]:
    folder = _fresh("valid")
    made = [str(SCANNERS_PYTHON), "-m", "bench.corpora.make_valid", str(folder)]
    subprocess.run(made, cwd=ROOT, check=True)
    expects: dict[str, str] = json.loads((folder / "expects.json").read_text())
    return [_file("valid", folder / name, truth, valid=True) for name, truth in expects.items()]


def _file(corpus: str, path: Path, truth: str, valid: bool = False) -> File:
    size = sum(each.stat().st_size for each in path.iterdir()) if path.is_dir() else path.stat().st_size
    return File(corpus, str(path), truth, size, valid, path.is_dir())


def _fresh(name: str) -> Path:
    folder = _PLACE / "files" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _outcomes(files: Sequence[File], asked: Sequence[str]) -> list[Outcome]:
    """Ask the tools, two at a time, and judge; every answer is kept beside the files, for those not asked again."""

    def ask(tool: str) -> dict[str, dict[str, Any]]:
        kept = _PLACE / f"answers-{tool}.jsonl"
        if tool not in asked:
            return {answer["path"]: answer for answer in map(json.loads, kept.read_text().splitlines())}
        answers = ask_all(tool, [Path(each.path) for each in files], _PLACE)
        kept.write_text("".join(json.dumps(answer) + "\n" for answer in answers.values()))
        _say(f"{tool} has answered")
        return answers

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answered = dict(zip(TOOLS, pool.map(ask, TOOLS), strict=True))
    return [judge(tool, each, answered[tool][each.path]) for tool in TOOLS for each in files]


def _about(missing: Sequence[str]) -> str:
    words = [str(SCANNERS_PYTHON), "-m", "pip", "freeze"]
    frozen = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    wanted = ("picklescan", "fickling", "modelscan", "modelaudit", "torch", "numpy", "safetensors")
    versions = ", ".join(each.replace("==", " ") for each in frozen if each.partition("==")[0] in wanted)
    lines = [f"{datetime.now(UTC):%Y-%m-%d}; {versions}."]
    lines += [f"could not be had: {each}" for each in missing]
    return "\n".join(lines)


def _say(text: str) -> None:
    print(f"corpora: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
