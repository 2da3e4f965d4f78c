"""The home of a command that has --wait: how long it waits for a silent box, and where it prints that it waits."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from leasehold.api import opening

from . import output


def patient_home(args: Namespace) -> Any:
    """Open the home with the command's own limits; a wait is printed on stderr."""
    bulk = args.command == "pull"
    return opening.patient_home(args.silence_s, lambda text: output.say(output.paint(text, "dim")), bulk=bulk)
