"""`lease`, and `python -m leasehold`: the connection to the box is opened first, then the command is read."""

from __future__ import annotations

import sys

from leasehold.kit.startup.inspect_stub import load_dataclasses
from leasehold.transport import first_call


def main() -> int:
    """Run one command and return its exit code."""
    try:
        first_call.for_command(sys.argv[1:])
        load_dataclasses()
        from leasehold.shells.cli.main import main as command

        return command()
    except KeyboardInterrupt:  # while the program was still loading, or exiting
        return 130
    finally:
        first_call.hang_up()


if __name__ == "__main__":
    sys.exit(main())
