"""Run every docs generator, tools/gen_*.py: with --check to find drift, with --write to mend it.

A generator writes its files; with --check it writes nothing, prints a diff and exits 1 when one drifted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the generators in name order and report all that fail."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the docs instead of comparing them")
    options = [] if parser.parse_args().write else ["--check"]

    generators = sorted((ROOT / "tools").glob("gen_*.py"))
    failed = []
    for generator in generators:
        shown = generator.relative_to(ROOT)
        answer = subprocess.run([sys.executable, str(shown), *options], cwd=ROOT, check=False)
        if answer.returncode != 0:
            failed.append(f"{shown} (exit {answer.returncode})")
    if failed:
        remedy = "; `make docs` writes the files again" if options else ""
        print(f"check_docs: failed: {', '.join(failed)}{remedy}", file=sys.stderr)
        return 1
    print(f"check_docs: {len(generators)} generators, {'nothing drifted' if options else 'all written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
