"""Parsers of the commands that keep a box clean: gpu and disk."""

from __future__ import annotations

from .front_parser import AddVerb


def add_hygiene_parsers(verb: AddVerb) -> None:
    """Describe the commands that look after cards and disks."""
    gpu = verb(
        "gpu",
        "say how healthy a box's cards are and who holds them; exit 4 when one is broken",
        "  lease gpu gpu1                     five samples, faults, who has a card open\n"
        "  lease gpu gpu1 --kill              end zombies that hold a card, after you typed their numbers",
    )
    gpu.add_argument("box", metavar="BOX", help="a box of the book, or what --on says")
    gpu.add_argument("--samples", type=int, default=5, metavar="N", help="samples, a second apart (default: 5)")
    gpu.add_argument("--kill", action="store_true", help="end the zombies; asks you to type which")
    disk = verb(
        "disk",
        "say what fills a box's disks, by class, and what may go; put it aside first, delete only after your yes",
        "  lease disk gpu1                            tiers, hogs, and a deletion plan; touches nothing\n"
        "  lease disk gpu1 --free 20GB --plan         what would be taken for 20 GB\n"
        "  lease disk gpu1 --free 20GB                put it aside (renamed: frees nothing yet), after your yes\n"
        "  lease disk gpu1 --undo STAMP               bring it back\n"
        "  lease disk gpu1 --empty-quarantine STAMP   delete it, after your yes: now the room is free\n"
        "  lease disk gpu1 --free 20GB --delete       at once, where the disk is too full for a quarantine",
    )
    disk.add_argument("box", metavar="BOX", help="a box of the book, or what --on says")
    disk.add_argument("--free", default="", metavar="20GB", help="pick the cheapest targets that free so much")
    disk.add_argument("--free-inodes", type=int, default=0, metavar="N", help="pick targets that free so many files")
    disk.add_argument("--tier", default="", metavar="PATH", help="where to free it (default: where our folder lies)")
    disk.add_argument("--plan", action="store_true", help="with --free: only say what would be taken")
    disk.add_argument("--delete", action="store_true", help="with --free: delete at once, without quarantine")
    disk.add_argument("--limit", default="60s", metavar="D", help="how long to look at most (default: 60s)")
    disk.add_argument("--all", action="store_true", help="show every unit, not only the biggest of each class")
    later = disk.add_mutually_exclusive_group()
    later.add_argument("--undo", default="", metavar="STAMP", help="bring a quarantine's contents back")
    later.add_argument("--empty-quarantine", default="", metavar="STAMP", help="delete a quarantine's contents")
