"""Options of box add, list, show, tell, test, prune, reboot, remove, and of ssh, exec and tunnel."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction

from leasehold.shells.cli.shared_options import BOX, RUN, add_root, add_run, examples


def box_add(parser: ArgumentParser) -> None:
    """lease box add"""
    parser.description = (
        "Connect to a box once and save it under a name: pin and show its host key, test the connection,\n"
        "and show the platform's deadlines."
    )
    examples(
        parser,
        "  lease box add gpu1 'ssh -p 31022 root@connect.example.com' --price 1.98USD/h\n"
        "  lease box add gpu2 --ssh ubuntu@203.0.113.7 --root /mnt/disk/lease\n"
        "  lease box add gpu3 my-alias --no-contact\n"
        "  lease box add gpu4 'ssh ubuntu@203.0.113.9' --platform lambda --durable /lambda/nfs/data\n"
        "  lease box add gpu1 'ssh -p 40022 root@connect.example.com' --replace\n"
        "  lease box add gpu1 --replace --fingerprint SHA256:…      re-created; the console shows this key",
    )
    parser.add_argument("name", metavar="NAME", help="the name to use with --on")
    parser.add_argument(
        "pasted", metavar="SSH", nargs="?", default="", help="the console's ssh command, pasted whole and quoted"
    )
    parser.add_argument(
        "--ssh", default="", metavar="SSH", help="the same as an option: an ssh command, an address or an alias"
    )
    parser.add_argument(
        "--platform",
        default="",
        metavar="ID",
        help="the platform of the box (default: asks where its signs show a platform, else generic-ssh)",
    )
    parser.add_argument("--price", default="", metavar="1.98USD/h", help="what an hour costs; needed to show the cost")
    parser.add_argument(
        "--balance", default="", metavar="37.5CNY", help="what the account holds; needed to show when it runs out"
    )
    add_root(parser)
    parser.add_argument(
        "--durable",
        default="",
        metavar="DIR",
        help="a folder on it that outlives the box (a network volume, NFS): results are copied there too",
    )
    parser.add_argument(
        "--spot",
        action=BooleanOptionalAction,
        default=None,
        help="it is spot capacity, which can be taken away; the plan gate allows for that",
    )
    parser.add_argument(
        "--fingerprint",
        default="",
        metavar="SHA256:…",
        help="accept this host key and no other, also if it has changed",
    )
    parser.add_argument("--replace", action="store_true", help="change a saved box; options left out stay as they are")
    parser.add_argument("--no-contact", action="store_true", help="save it without connecting")


def box_list(parser: ArgumentParser) -> None:
    """lease box list"""
    examples(parser, "  lease box list --json")


def box_show(parser: ArgumentParser) -> None:
    """lease box show"""
    parser.description = (
        "Show what is known about a box, its open leases, its platform's dangers and the runs found there."
    )
    examples(parser, "  lease box show gpu1")
    parser.add_argument("name", metavar="NAME", help="a saved box")


def box_tell(parser: ArgumentParser) -> None:
    """lease box tell"""
    parser.description = "Record what only the console shows of a box: balance, price, the size of a billed disk."
    examples(
        parser,
        "  lease box tell gpu1 --balance 37.5CNY\n"
        "  lease box tell gpu1 --price 0.1CNY/h               it was started without its card\n"
        "  lease box tell gpu1 --disk 'data disk=200GB'       a billed tier that the audit cannot measure",
    )
    parser.add_argument("name", metavar="BOX", help="a saved box, or a lease")
    parser.add_argument("--balance", default="", metavar="37.5CNY", help="what the account holds now")
    parser.add_argument("--price", default="", metavar="1.98USD/h", help="what an hour costs from now on")
    parser.add_argument(
        "--disk",
        action="append",
        default=[],
        metavar="TIER=SIZE",
        help="size of a tier that bills by its size; repeatable",
    )


def box_test(parser: ArgumentParser) -> None:
    """lease box test"""
    parser.description = (
        "Check everything that a run needs on a box: host key, connection, Python, folder, space, clock."
    )
    examples(parser, "  lease box test gpu1                exit 0 fit, 4 not fit, 5 unknown")
    parser.add_argument("name", metavar="NAME", help="a saved box")


def box_prune(parser: ArgumentParser) -> None:
    """lease box prune"""
    parser.description = "Delete code and uploaded data on a box that no unfinished run uses. Runs and results stay."
    examples(parser, "  lease box prune gpu1 --dry-run")
    parser.add_argument("name", metavar="NAME", help=BOX)
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")


def box_reboot(parser: ArgumentParser) -> None:
    """lease box reboot"""
    parser.description = (
        "Show or decide whether runs with `reboot: resume` continue by themselves after the box restarts."
    )
    examples(
        parser,
        "  lease box reboot gpu1             what is allowed and installed there\n"
        "  lease box reboot gpu1 --allow     allow it once for this box; each run removes its hook when it ends\n"
        "  lease box reboot gpu1 --forbid    take that back and remove every hook",
    )
    parser.add_argument("name", metavar="NAME", help=BOX)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--allow", action="store_true", help="allow hooks; asks you to type it")
    which.add_argument("--forbid", action="store_true", help="revoke the permission and remove the hooks")


def box_remove(parser: ArgumentParser) -> None:
    """lease box remove"""
    examples(parser, "  lease box remove gpu1")
    parser.add_argument("name", metavar="NAME", help="a saved box")


def ssh(parser: ArgumentParser) -> None:
    """lease ssh"""
    parser.description = "Open a shell on a box, or in the folder of a run on its box; after --, run a command there."
    examples(parser, "  lease ssh gpu1\n  lease ssh myjob -- tail -f cells/main/attempt-0001/log")
    parser.add_argument("run", metavar="RUN|BOX", help=f"{RUN}; or a saved box")
    parser.add_argument("words", nargs="*", metavar="CMD", help="after --: the command that the shell there runs")


def execute(parser: ArgumentParser) -> None:
    """lease exec"""
    parser.description = (
        "Run a command in a run's working folder with its trainer's environment; without a command, a shell."
    )
    examples(
        parser,
        "  lease exec myjob -- python -c 'import torch; print(torch.__version__)'\n  lease exec --cell lr-0.1 mysweep",
    )
    add_run(parser)
    parser.add_argument("words", nargs="*", metavar="CMD", help="after --: the command and its arguments")
    parser.add_argument("--cell", default="", metavar="CELL", help="the cell of a sweep (default: the first)")


def tunnel(parser: ArgumentParser) -> None:
    """lease tunnel"""
    parser.description = (
        "Forward a port of the box (TensorBoard: 6006, Jupyter: 8888) and check that the panel shows the run."
    )
    examples(parser, "  lease tunnel myjob 6006")
    add_run(parser)
    parser.add_argument("port", nargs="?", default="6006", metavar="PORT", help="the port on the box (default: 6006)")
    parser.add_argument(
        "--local-port", type=int, default=0, metavar="N", help="the port on this machine (default: a free one)"
    )
    parser.add_argument("--once", action="store_true", help="check the panel, then close the tunnel")
