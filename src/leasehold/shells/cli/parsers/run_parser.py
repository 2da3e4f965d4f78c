"""Options of run, resume, move, attach, adopt, pull and verify."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_job, add_root, add_run, add_wait, examples

_DETACH = "return once the run is seen alive over a second connection"
_RESULTS = "where results come home to (default: lease-results beside the job file)"


def run(parser: ArgumentParser) -> None:
    """lease run"""
    parser.description = (
        "Run a job: smoke test, launch, watch, copy the results home and verify them.\n"
        "The same command again attaches to the run, or resumes it."
    )
    examples(
        parser,
        "  lease run                                 ./lease.yaml on this machine\n"
        "  lease run train.yaml --on ssh:gpu1 --price 1.98USD/h --detach\n"
        "  lease run --on runpod                     rent a box by API, after your yes\n"
        "  lease run --on vastai --wait 6h --max-price 2USD/h --detach",
    )
    add_job(parser)
    parser.add_argument(
        "--on",
        default="",
        metavar="BOX",
        help="local, a saved box, ssh:ALIAS, ssh:[user@]host[:port], or a landlord that rents by API (lease "
        "landlord list); several boxes, separated by commas, share the cells (default: the first of the job's "
        "candidates that answers and fits; without candidates, local)",
    )
    parser.add_argument(
        "--platform",
        default="",
        metavar="ID",
        help="with --on ssh:…: the platform of the box (see lease platforms); remembered",
    )
    add_root(parser)
    parser.add_argument("--results", default="", metavar="DIR", help=_RESULTS)
    _money(parser)
    parser.add_argument("--detach", "-d", action="store_true", help=_DETACH)
    parser.add_argument("--again", action="store_true", help="run the same job and code once more, as a new run")
    parser.add_argument(
        "--alongside", action="store_true", help="start even if another version of this job runs on the box"
    )
    parser.add_argument(
        "--skip-gate",
        action="append",
        default=[],
        metavar="NAME",
        help="skip a gate (audit, env, smoke or launch); needs --because, and is recorded; repeatable",
    )
    parser.add_argument("--because", default="", metavar="WHY", help="why a gate is skipped")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="with --on local: simulate a rented box that `lease down` really deletes",
    )
    _renting(parser)
    _sweep(parser)


def _renting(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        dest="rent_wait",
        default="",
        metavar="6h",
        help="with --on LANDLORD: ask again for so long until a box fits; needs --max-price",
    )
    parser.add_argument(
        "--max-price", default="", metavar="2USD/h", help="with --on LANDLORD: what an hour may cost at most"
    )
    parser.add_argument(
        "--region", action="append", default=[], metavar="R", help="with --on LANDLORD: only there; repeatable"
    )
    parser.add_argument(
        "--ends-after",
        default="",
        metavar="D",
        help="with --on LANDLORD: have the landlord end the box by itself after so long, where it can "
        "(default: twice the forecast, and a day at least)",
    )
    parser.add_argument(
        "--rent-request", default="", metavar="FILE", help="write the request for a signature, and rent nothing"
    )
    parser.add_argument(
        "--rent-approval", default="", metavar="FILE", help="the signed request: nobody types at a terminal"
    )


def _money(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--price", default="", metavar="1.98USD/h", help="what an hour of the box costs; needed to show the cost"
    )
    parser.add_argument(
        "--balance", default="", metavar="50USD", help="what the account holds; recorded, and judged by the plan gate"
    )
    parser.add_argument(
        "--spot", action="store_true", help="the box is spot capacity; recorded, and judged by the plan gate"
    )


def _sweep(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--move-after",
        default="10m",
        metavar="D",
        help="with several boxes: move the cells of a box that is silent for this long (default: 10m)",
    )
    parser.add_argument(
        "--bring-after",
        default="10m",
        metavar="D",
        help="of a sweep: copy finished cells home when this much training exists only on the box (default: 10m)",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="with several boxes: assign a sweep's cells in place of the home that did so far (asks you to type it)",
    )


def resume(parser: ArgumentParser) -> None:
    """lease resume"""
    parser.description = (
        "Continue a stopped or failed run with the code and job that it started with,\nwhatever the folder holds now."
    )
    examples(parser, "  lease resume myjob\n  lease resume myjob-0a1b2c3d4e --detach")
    add_run(parser)
    parser.add_argument("--detach", "-d", action="store_true", help=_DETACH)


def attach(parser: ArgumentParser) -> None:
    """lease attach"""
    parser.description = "Follow a run, also one that another home started on the same box."
    examples(
        parser,
        "  lease attach myjob\n"
        "  lease attach myjob --on ssh:gpu1      started from another laptop\n"
        "  lease attach myjob --take-over        that laptop is gone: this home is responsible from now on",
    )
    add_run(parser)
    add_wait(parser)
    parser.add_argument("--on", default="", metavar="BOX", help="where to look for a run that this home does not know")
    add_root(parser)
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="make this home responsible for the run; the other home may then only look (asks you to type it)",
    )
    parser.add_argument("--results", default="", metavar="DIR", help="where results come home to")


def move(parser: ArgumentParser) -> None:
    """lease move"""
    parser.description = (
        "Continue a run on another box. The new box passes its gates first; then the run is stopped where it\n"
        "is, with a last save, and fenced there; its newest state that is whole is laid onto the new box, hashed\n"
        "on arrival. The same command again continues a move that was cut off."
    )
    examples(
        parser,
        "  lease move myjob --to gpu2\n"
        "  lease move myjob --to ssh:root@1.2.3.4:2222 --price 1.98USD/h --detach\n"
        "  lease move myjob --to gpu2 --rehearse      what it would resume from and lose; changes nothing",
    )
    add_run(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="BOX",
        help="local, the name of a saved box, or an address as lease run --on takes it",
    )
    parser.add_argument(
        "--platform", default="", metavar="ID", help="with --to ssh:…: the platform of the box; remembered"
    )
    add_root(parser)
    parser.add_argument("--price", default="", metavar="1.98USD/h", help="what an hour of the new box costs")
    parser.add_argument(
        "--grace", default="30s", metavar="D", help="time for the last save on the box that is left (default: 30s)"
    )
    parser.add_argument("--from-start", action="store_true", help="begin at step 0 if no state is found anywhere")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="show what it would resume from and lose; reads that state, changes nothing",
    )
    parser.add_argument("--detach", "-d", action="store_true", help="return once the run is seen alive on the new box")
    parser.add_argument(
        "--skip-gate", action="append", default=[], metavar="NAME",
        help="skip a gate of the new box (audit, env, smoke or launch); needs --because, and is recorded; repeatable",
    )  # fmt: skip
    parser.add_argument("--because", default="", metavar="WHY", help="why a gate is skipped")


def adopt(parser: ArgumentParser) -> None:
    """lease adopt"""
    parser.description = (
        "Find training that was started without Leasehold, and watch it.\n"
        "Its results then come home, and the teardown gate protects them."
    )
    examples(
        parser,
        "  lease adopt gpu1                          list what trains there\n"
        "  lease adopt gpu1 --pid 4711 --out /root/exp/out --artifact best.pt --artifact '*.json'",
    )
    parser.add_argument("box", metavar="BOX", help="a saved box, or an address as lease run --on takes it")
    parser.add_argument(
        "--pid", type=int, default=0, metavar="N", help="the process to adopt; Leasehold never restarts it"
    )
    parser.add_argument("--out", default="", metavar="DIR", help="where it writes on the box (default: a guess)")
    parser.add_argument(
        "--artifact",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files below --out that must come home; repeatable",
    )
    parser.add_argument("--log", default="", metavar="FILE", help="its log on the box (default: where stdout goes)")
    parser.add_argument("--name", default="", metavar="NAME", help="name of the run (default: that of the script)")
    parser.add_argument("--price", default="", metavar="1.98CNY/h", help="what an hour of the box costs")
    add_root(parser)
    parser.add_argument("--results", default="", metavar="DIR", help="where results come home to")
    parser.add_argument(
        "--young", type=float, default=60.0, metavar="S", help="list no process younger than S seconds (default: 60)"
    )


def pull(parser: ArgumentParser) -> None:
    """lease pull"""
    parser.description = (
        "Copy a run's results home and verify them by hash and by loading. An interrupted copy continues.\n"
        "Of a run that is live, stopped or failed, copy what there is: that is no receipt, and the exit code is 6."
    )
    examples(
        parser,
        "  lease pull myjob\n"
        "  lease pull myjob --rate 10MB/s\n"
        "  lease pull --state myjob              its newest checkpoint, into lease-results/states\n"
        "  lease pull --state --rate 20MB/s      those of every run that goes on",
    )
    parser.add_argument("run", metavar="RUN", nargs="?", default="", help="name or id of the run")
    add_wait(parser)
    parser.add_argument(
        "--rate", "--limit-rate", default="", metavar="20MB/s", help="use at most this many bytes per second"
    )
    parser.add_argument(
        "--state",
        action="store_true",
        help="bring only the newest whole checkpoint of each unfinished cell; without RUN, of every run that goes on",
    )


def verify(parser: ArgumentParser) -> None:
    """lease verify"""
    parser.description = "Read the home copy again and compare it with its receipt. Needs no box."
    examples(parser, "  lease verify myjob")
    add_run(parser)
