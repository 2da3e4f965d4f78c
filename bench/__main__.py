"""python -m bench [names…] [--json] [--quick]: measure, then print one table. Never fails for being slow."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .rounds import Effort
from .rows import MissingPart, Row, markdown

NAMES = (
    "help", "status", "launch", "caretaker", "replay", "readers", "doctor", "checkpoint", "objects", "transfer",
    "fleet", "fleet_sweep", "sweep", "refuge", "moves", "fuzz",
)  # fmt: skip


def main() -> int:
    """Run the benches that were named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ratios against peers, measured in one run.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which benches (default: {', '.join(NAMES)})")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with every round")
    parser.add_argument("--quick", action="store_true", help="few rounds and small files: a look, not a number")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}; known: {', '.join(NAMES)}")
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    load_before = os.getloadavg()[0]
    try:
        for name in args.names or NAMES:
            _run(name, Effort(args.quick), rows, skipped)
    finally:  # a bench that breaks must not take the others' rows with it
        load = (load_before, os.getloadavg()[0])
        about = {"machine": _machine(), "load": load, "skipped": skipped}
        _print(rows, about, args.json)
    return 0


def _run(name: str, effort: Effort, rows: list[Row], skipped: dict[str, str]) -> None:
    print(f"bench: {name} …", file=sys.stderr, flush=True)
    try:
        rows.extend(import_module(f"bench.{name}").measure(effort))
    except MissingPart as missing:
        skipped[name] = str(missing)


def _machine() -> str:
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} × {model}, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def _print(rows: list[Row], about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({**about, "rows": [row.as_dict() for row in rows]}, indent=2, ensure_ascii=False))
        return
    if rows:
        print(markdown(rows))
    print(f"\nmedians; in brackets the middle half of the rounds. {about['machine']};", end=" ")
    print("load {:.1f} before, {:.1f} after".format(*about["load"]))
    for name, why in about["skipped"].items():
        print(f"skipped {name}: {why}")


if __name__ == "__main__":
    sys.exit(main())
