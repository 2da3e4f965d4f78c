"""Options of offers, of the commands under `landlord`, and of box resume."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import BOX, add_job, examples

_NAME = "a landlord with an API: runpod, vastai, lambda, paperspace or autodl"
_NAMES = "landlords, separated by commas (default: those with a key)"


def offers(parser: ArgumentParser) -> None:
    """lease offers"""
    parser.description = (
        "List what could be rented now for a job, sorted by the price of the whole job:\n"
        "setup, training, the pull and the storage. Landlords are asked at once; nothing is rented."
    )
    examples(
        parser,
        "  lease offers                                  for ./lease.yaml, at every landlord with a key\n"
        "  lease offers train.yaml --on runpod,vastai --max-price 2USD/h\n"
        "  lease offers --spot --region eu --json",
    )
    add_job(parser)
    parser.add_argument("--on", default="", metavar="A,B", help=_NAMES)
    add_limits(parser)
    parser.add_argument(
        "--price", default="", metavar="1USD/h", help="what the console shows, for landlords whose API tells no price"
    )
    parser.add_argument(
        "--reliability", type=float, default=0.0, metavar="R", help="at least this reliable, 0 to 1, where it is told"
    )


def add_limits(parser: ArgumentParser) -> None:
    """Add a person's limits for offers."""
    parser.add_argument("--max-price", default="", metavar="2USD/h", help="what an hour of compute may cost at most")
    parser.add_argument("--region", action="append", default=[], metavar="R", help="only there; repeatable")
    parser.add_argument("--spot", action="store_true", help="spot capacity, which can be taken away")


def login(parser: ArgumentParser) -> None:
    """lease landlord login"""
    parser.description = (
        "Ask for a landlord's API key on the terminal, check it with the landlord, and keep it:\n"
        "in the system keyring where there is one, else in a file that only you can read."
    )
    examples(
        parser,
        "  lease landlord login runpod\n"
        "  lease landlord login vastai < key.txt    from a file, not from the command line",
    )
    parser.add_argument("name", metavar="NAME", help=_NAME)


def list_(parser: ArgumentParser) -> None:
    """lease landlord list"""
    examples(parser, "  lease landlord list\n  lease landlord list --json")


def check(parser: ArgumentParser) -> None:
    """lease landlord check"""
    examples(parser, "  lease landlord check\n  lease landlord check runpod,vastai")
    parser.add_argument("names", nargs="?", default="", metavar="A,B", help=_NAMES)


def logout(parser: ArgumentParser) -> None:
    """lease landlord logout"""
    parser.description = "Forget a landlord's key. Refused while this home holds a box there."
    examples(parser, "  lease landlord logout runpod")
    parser.add_argument("name", metavar="NAME", help=_NAME)


def sweep(parser: ArgumentParser) -> None:
    """lease landlord sweep"""
    parser.description = (
        "List everything that bills: boxes, volumes, snapshots and addresses, each with the lease that counts it.\n"
        "Boxes that this home did not make are shown and never touched. A landlord that does not answer is unknown."
    )
    examples(parser, "  lease landlord sweep\n  lease landlord sweep runpod --json")
    parser.add_argument("names", nargs="?", default="", metavar="A,B", help=_NAMES)


def allow(parser: ArgumentParser) -> None:
    """lease landlord allow"""
    parser.description = (
        "Give a standing approval for rents, typed once: up to a price, a count and a date, and nothing else.\n"
        "Without options, list those that hold now."
    )
    examples(
        parser,
        "  lease landlord allow --max-price 1USD/h --count 3 --for 7d\n"
        "  lease landlord allow --max-price 0.5USD/h --count 1 --for 12h --on vastai\n"
        "  lease landlord allow --revoke",
    )
    parser.add_argument("--max-price", default="", metavar="1USD/h", help="what an hour of a box may cost at most")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many boxes in all (default: 1)")
    parser.add_argument("--for", dest="how_long", default="24h", metavar="D", help="until when, at most 31d (24h)")
    parser.add_argument("--on", default="", metavar="A,B", help="only these landlords (default: all)")
    parser.add_argument("--revoke", action="store_true", help="withdraw every standing approval for rents")


def adopt(parser: ArgumentParser) -> None:
    """lease landlord adopt"""
    parser.description = (
        "Put a box that Leasehold asked for, and that no lease holds, on this home's books.\n"
        "Then `lease down` and its gate apply to it."
    )
    examples(parser, "  lease landlord adopt runpod abc123def")
    parser.add_argument("name", metavar="NAME", help=_NAME)
    parser.add_argument("id", metavar="ID", help="the landlord's id of the box, as lease landlord sweep shows it")


def delete(parser: ArgumentParser) -> None:
    """lease landlord delete"""
    parser.description = (
        "Delete storage that a released box of this home left, after you typed its name.\n"
        "Refused while a result that may lie there is not home."
    )
    examples(parser, "  lease landlord delete runpod volume/abc123")
    parser.add_argument("name", metavar="NAME", help=_NAME)
    parser.add_argument("id", metavar="ID", help="kind/ID, as lease landlord sweep shows it")


def probe(parser: ArgumentParser) -> None:
    """lease landlord probe"""
    parser.description = (
        "Find out what a landlord's disks survive: rent the cheapest box after your yes, leave a file on each tier,\n"
        "stop, start, look, and write the result as a dated overlay of the platform's profile."
    )
    examples(parser, "  lease landlord probe runpod --yes")
    parser.add_argument("name", metavar="NAME", help=_NAME)
    parser.add_argument("--yes", action="store_true", help="do it; the price is still asked for")


def box_resume(parser: ArgumentParser) -> None:
    """lease box resume"""
    parser.description = "Start a parked box that was rented through an API, after you typed it; wait until it answers."
    examples(parser, "  lease box resume runpod-1\n  lease box resume vastai-2 --bid 0.35USD/h")
    parser.add_argument("box", metavar="BOX", help=BOX)
    parser.add_argument("--bid", default="", metavar="0.35USD/h", help="raise the bid of a spot box to this")
