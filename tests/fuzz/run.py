"""Fuzz one reader with atheris: run.py TARGET [libFuzzer's options and folders]. Its Python needs atheris alone."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["leasehold.kit"]):
    import leasehold.kit.readers
    import leasehold.kit.readers.checkpoints.folders  # noqa: F401

from tests.fuzz import targets


def main() -> None:
    """Hand the target to libFuzzer, which does not return."""
    target = targets.targets()[sys.argv.pop(1)]
    target(b"\0")  # what is imported late is imported now
    targets.watch()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
