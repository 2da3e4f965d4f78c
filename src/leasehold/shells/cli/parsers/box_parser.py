"""The words of `lease box`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from leasehold.shells.cli.help_text import HelpText

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

_ABOUT = "the box book: names for machines, so that --on NAME finds them"
_EXAMPLES = """examples:
  lease box add gpu1 'ssh -p 31022 root@connect.example.com' --price 1.98USD/h
  lease box list
  lease box test gpu1
  lease run --on gpu1
  lease box add gpu1 'ssh -p 40022 root@connect.example.com' --replace     the port has changed
  lease box remove gpu1"""


def add_box_parser(verbs: Verbs) -> None:
    """Describe `lease box` and what it can do."""
    box = verbs.add_parser("box", help=_ABOUT, description=_ABOUT, epilog=_EXAMPLES, formatter_class=HelpText)
    acts = box.add_subparsers(title="commands", metavar="COMMAND", required=True, prog="lease box")
    _add(acts)
    _act(acts, "list", "list the boxes of the book", "  lease box list --json")
    show = _act(acts, "show", "say what the book knows of a box, and what counts on it", "  lease box show gpu1")
    show.add_argument("name", metavar="NAME")
    tell = _act(
        acts,
        "tell",
        "say what only the console shows of a box: its account's balance, its price, the size of a billed disk",
        "  lease box tell gpu1 --balance 37.5CNY\n"
        "  lease box tell gpu1 --price 0.1CNY/h               it was started without its card\n"
        "  lease box tell gpu1 --disk 'data disk=200GB'       a billed tier that the audit cannot measure",
    )
    tell.add_argument("name", metavar="BOX", help="a box of the book, or a lease")
    tell.add_argument("--balance", default="", metavar="37.5CNY", help="what the account holds now")
    tell.add_argument("--price", default="", metavar="1.98USD/h", help="what an hour costs from now on")
    tell.add_argument(
        "--disk", action="append", default=[], metavar="TIER=SIZE", help="how large a tier is that bills by its size"
    )
    test = _act(
        acts, "test", "try everything a run needs: host key, door, Python, folder, room, clock",
        "  lease box test gpu1                exit 0 fit, 4 not fit, 5 not to be known",
    )  # fmt: skip
    test.add_argument("name", metavar="NAME")
    prune = _act(
        acts, "prune", "remove code and uploaded data on a box that no unfinished run uses; runs and results stay",
        "  lease box prune gpu1 --dry-run",
    )  # fmt: skip
    prune.add_argument("name", metavar="NAME", help="a box of the book, or what --on says")
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    reboot = _act(
        acts, "reboot", "say or decide whether runs with `reboot: resume` go on by themselves after the box restarts",
        "  lease box reboot gpu1             what is allowed and installed there\n"
        "  lease box reboot gpu1 --allow     your yes, once for this box; each run removes its hook when it ends\n"
        "  lease box reboot gpu1 --forbid    take it back, and every hook of ours with it",
    )  # fmt: skip
    reboot.add_argument("name", metavar="NAME", help="a box of the book, or what --on says")
    which = reboot.add_mutually_exclusive_group()
    which.add_argument("--allow", action="store_true", help="allow hooks; asks you to type it")
    which.add_argument("--forbid", action="store_true", help="take the permission back and remove the hooks")
    remove = _act(acts, "remove", "strike a box out; refused while a lease on it is open", "  lease box remove gpu1")
    remove.add_argument("name", metavar="NAME")


def _act(acts: Verbs, name: str, about: str, example: str) -> argparse.ArgumentParser:
    parser = acts.add_parser(
        name, help=about, description=about, epilog=f"example:\n{example}",
        formatter_class=HelpText,
    )  # fmt: skip
    parser.set_defaults(command=f"box_{name}")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return parser


def _add(acts: Verbs) -> None:
    add = _act(
        acts,
        "add",
        "meet a box once and write it down: host key pinned and shown, door tried, the platform's clocks said",
        "  lease box add gpu1 'ssh -p 31022 root@connect.example.com' --price 1.98USD/h\n"
        "  lease box add gpu2 --ssh ubuntu@203.0.113.7 --root /mnt/disk/lease\n"
        "  lease box add gpu3 my-alias --no-contact\n"
        "  lease box add gpu4 'ssh ubuntu@203.0.113.9' --platform lambda --durable /lambda/nfs/data\n"
        "  lease box add gpu1 'ssh -p 40022 root@connect.example.com' --replace\n"
        "  lease box add gpu1 --replace --fingerprint SHA256:…      it was re-created, and the console shows this key",
    )
    add.add_argument("name", metavar="NAME", help="what --on will call it")
    add.add_argument(
        "pasted", metavar="SSH", nargs="?", default="", help="the console's ssh command, pasted whole and quoted"
    )
    add.add_argument("--ssh", default="", metavar="SSH", help="the same, as an option: a command, address or alias")
    add.add_argument(
        "--platform",
        default="",
        metavar="ID",
        help="whose rules hold there (default: asked where its signs show a platform, else generic-ssh)",
    )
    add.add_argument("--price", default="", metavar="1.98USD/h", help="what it costs, so that the meter can be shown")
    add.add_argument(
        "--balance", default="", metavar="37.5CNY", help="what its account holds, so that its end gets a date"
    )
    add.add_argument("--root", default="", metavar="DIR", help="our folder on it (default: ~/.leasehold there)")
    add.add_argument(
        "--durable",
        default="",
        metavar="DIR",
        help="a folder on it that outlives the box (a network volume, NFS): results are copied there too",
    )
    add.add_argument(
        "--spot",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="it is spot capacity, which can be taken away; the plan gate counts with that",
    )
    add.add_argument(
        "--fingerprint", default="", metavar="SHA256:…", help="accept this host key and no other; a changed one, too"
    )
    add.add_argument("--replace", action="store_true", help="change a box of the book; what is left out stays")
    add.add_argument("--no-contact", action="store_true", help="write it down without connecting")
