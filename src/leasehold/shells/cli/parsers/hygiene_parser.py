"""Options of box gpu and box disk."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import BOX, examples


def gpu(parser: ArgumentParser) -> None:
    """lease box gpu"""
    parser.description = "Check a box's cards and show who uses them. Exit 4 if one is broken."
    examples(
        parser,
        "  lease box gpu gpu1                 five samples, faults, which processes use a card\n"
        "  lease box gpu gpu1 --kill          end zombies that hold a card, after you typed their numbers",
    )
    parser.add_argument("box", metavar="BOX", help=BOX)
    parser.add_argument(
        "--samples", type=int, default=5, metavar="N", help="number of samples, one per second (default: 5)"
    )
    parser.add_argument("--kill", action="store_true", help="end the zombies; asks you to type which")


def disk(parser: ArgumentParser) -> None:
    """lease box disk"""
    parser.description = (
        "Show what fills a box's disks, by class, and what may be deleted. Files are first moved aside;\n"
        "deleting them needs your approval."
    )
    examples(
        parser,
        "  lease box disk gpu1                            tiers, largest files, and a deletion plan; changes nothing\n"
        "  lease box disk gpu1 --free 20GB --plan         what would be taken for 20 GB\n"
        "  lease box disk gpu1 --free 20GB                move it aside after your approval (frees nothing yet)\n"
        "  lease box disk gpu1 --undo STAMP               move it back\n"
        "  lease box disk gpu1 --empty-quarantine STAMP   delete it after your approval: now the space is free\n"
        "  lease box disk gpu1 --free 20GB --delete       at once, where the disk is too full for a quarantine",
    )
    parser.add_argument("box", metavar="BOX", help=BOX)
    parser.add_argument("--free", default="", metavar="20GB", help="choose the cheapest targets that free this much")
    parser.add_argument(
        "--free-inodes", type=int, default=0, metavar="N", help="choose targets that free this many files"
    )
    parser.add_argument(
        "--tier", default="", metavar="PATH", help="where to free it (default: the disk of Leasehold's folder)"
    )
    parser.add_argument("--plan", action="store_true", help="with --free: only show what would be taken")
    parser.add_argument("--delete", action="store_true", help="with --free: delete at once, without quarantine")
    parser.add_argument("--limit", default="60s", metavar="D", help="search for at most this long (default: 60s)")
    parser.add_argument("--all", action="store_true", help="show every unit, not only the largest of each class")
    later = parser.add_mutually_exclusive_group()
    later.add_argument("--undo", default="", metavar="STAMP", help="restore the contents of a quarantine")
    later.add_argument("--empty-quarantine", default="", metavar="STAMP", help="delete the contents of a quarantine")
