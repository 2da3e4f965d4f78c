"""`lease`, and `python -m leasehold`: the box is called first, then the command is read."""

from __future__ import annotations

import sys

from leasehold import first_call
from leasehold.kit.uninspected import load_dataclasses


def main() -> int:
    """Run one command and return its exit code."""
    first_call.for_command(sys.argv[1:])
    try:
        load_dataclasses()
        from leasehold.shells.cli.main import main as command

        return command()
    finally:
        first_call.hang_up()


if __name__ == "__main__":
    sys.exit(main())
