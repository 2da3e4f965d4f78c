"""Parsers of the commands that keep a box clean: gpu and disk."""

from __future__ import annotations

from .front_parser import AddVerb


def add_hygiene_parsers(verb: AddVerb) -> None:
    """Describe the commands that look after cards and disks."""
    gpu = verb(
        "gpu",
        "say how healthy a box's cards are and who holds them; exit 0 well, 4 a card is broken, 5 not to be known",
        "  lease gpu gpu1                     five samples, faults, who has a card open\n"
        "  lease gpu gpu1 --kill              end zombies that hold a card, after you typed their numbers",
    )
    gpu.add_argument("box", metavar="BOX", help="a box of the book, or what --on says")
    gpu.add_argument("--samples", type=int, default=5, metavar="N", help="samples, a second apart (default: 5)")
    gpu.add_argument("--kill", action="store_true", help="end the zombies; asks you to type which")
