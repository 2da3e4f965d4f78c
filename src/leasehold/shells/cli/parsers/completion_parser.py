"""Options of completion."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser

from leasehold.shells.cli.shared_options import examples


def completion(parser: ArgumentParser) -> None:
    """lease completion"""
    parser.description = "Print a completion script for a shell."
    examples(parser, "  source <(lease completion bash)\n  lease completion fish | source")
    parser.add_argument(
        "shell", nargs="?", default="bash", choices=("bash", "zsh", "fish"), help="the shell (default: bash)"
    )
    parser.add_argument("--runs", action="store_true", help=SUPPRESS)
