"""The lease command: parse, call the api, render."""

from __future__ import annotations

import argparse
import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.errors import LeaseholdError
from leasehold.shells.cli.parsers.box_parser import add_box_parser
from leasehold.shells.cli.parsers.ckpt_parser import add_ckpt_parsers
from leasehold.shells.cli.parsers.doctor_parser import add_doctor_parsers
from leasehold.shells.cli.parsers.ending_parser import add_ending_parsers
from leasehold.shells.cli.parsers.enter_parser import add_enter_parsers
from leasehold.shells.cli.parsers.front_parser import add_front_parsers, add_wait
from leasehold.shells.cli.parsers.hygiene_parser import add_hygiene_parsers
from leasehold.shells.cli.parsers.plan_parser import add_plan_parsers
from leasehold.shells.cli.parsers.plot_parser import add_plot_parser
from leasehold.shells.cli.parsers.status_parser import add_status_parser
from leasehold.shells.cli.parsers.sweep_parser import add_sweep_options, add_sweep_parser

from .help_text import HelpText

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

_ABOUT = """Run deep-learning training on rented GPUs and lose nothing: launch detached, bring results home
verified by hash and by load, and stop the meter only after that, with your yes."""

_GARBAGE = 50_000
_EXAMPLES = """examples:
  lease run                              start ./lease.yaml on this machine; again: attach or resume
  lease run --on ssh:root@1.2.3.4:2222   the same job on a rented box
  lease plan --on all                    what it would cost, delete and risk on each platform
  lease status                           every run, newest first
  lease logs -f myjob                    follow the trainer's output
  lease pull myjob                       bring the results home and verify them
  lease down myjob                       what must be true, then your yes, then the meter stops

exit codes: 0 done, 2 your command or file, 3 refused by a gate, 4 the box, 5 unreachable (state unknown),
            6 the run failed, 7 results do not verify, 8 this home (disk, ledger)"""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is not None:
        return _main(argv)
    gc.set_threshold(_GARBAGE)  # what a command loads and reads is none
    code = _main(sys.argv[1:])
    gc.freeze()  # looking for garbage that dies with us anyway takes up to 10 ms
    return code


def _main(words: list[str]) -> int:
    parser = build_parser(only=words[0] if words else "")
    cut = words.index("--") if words[:1] in (["ssh"], ["exec"]) and "--" in words else len(words)
    args = parser.parse_args(words[:cut])  # what comes after -- is another program's
    if cut < len(words):
        args.words = [*args.words, *words[cut + 1 :]]
    if args.command is None:
        parser.print_help()
        return 0
    from . import output

    try:
        _be_patient(args)
        known = _nag(args)
        try:
            return int(getattr(_room(args.command), args.command)(args))
        finally:
            _say_reopened(known)
    except LeaseholdError as problem:
        output.error(problem, getattr(args, "json", False))
        return problem.exit_code
    except KeyboardInterrupt:
        run = output.Screen.last_run
        output.say(
            f"\nleft; {run or 'whatever runs on a box'} goes on without us: lease {f'watch {run}' if run else 'status'}"
        )
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except Exception as problem:  # noqa: BLE001 - the process boundary: a defect of ours, kept for a report
        output.defect(problem, getattr(args, "json", False))
        return 70


_COMMANDS = (
    "run", "init", "check", "attach", "resume", "forget", "adopt", "handbook", "tunnel", "notify", "signer",
    "completion", "status", "watch", "logs", "show", "pull", "verify", "stop", "waive", "harmless", "down", "park",
    "box", "plan", "fetch", "platforms", "doctor", "lint", "ckpt", "cadence", "disk", "gpu", "plot", "sweep", "ssh",
    "exec",
)  # fmt: skip
_MODULES = {
    "leasehold.shells.cli.commands.plan": ("plan", "fetch", "platforms"),
    "leasehold.shells.cli.commands.ckpt": ("ckpt", "cadence"),
    "leasehold.shells.cli.commands.status": ("status",),
    "leasehold.shells.cli.commands.show": ("show",),
    "leasehold.shells.cli.commands.plot": ("plot",),
    "leasehold.shells.cli.commands.logs": ("logs",),
    "leasehold.shells.cli.commands.hygiene": ("disk", "gpu"),
    "leasehold.shells.cli.commands.sweep": ("sweep",),
    "leasehold.shells.cli.commands.enter": ("ssh", "execute"),
    "leasehold.shells.cli.commands.notify": ("notify",),
    "leasehold.shells.cli.commands.adopt": ("adopt",),
    "leasehold.shells.cli.commands.signer": ("signer",),
    "leasehold.shells.cli.commands.doctor": ("doctor", "lint"),
    "leasehold.shells.cli.commands.front": (
        "init", "check", "attach", "resume", "forget", "handbook", "tunnel", "completion",
    ),
}  # fmt: skip
_PLACES = {command: module for module, commands in _MODULES.items() for command in commands}


def _room(command: str) -> Any:
    """Import only the module that holds the command."""
    if command.startswith("box_"):
        return import_module("leasehold.shells.cli.commands.box")
    return import_module(_PLACES.get(command, "leasehold.shells.cli.commands.run"))


def _be_patient(args: argparse.Namespace) -> None:
    """Bound the wait for a silent box, and say on stderr what is waited for."""
    if not hasattr(args, "silence_s"):
        return
    from leasehold import api

    from . import output

    api.be_patient(args.silence_s, lambda text: output.say(output.paint(text, "dim")), bulk=args.command == "pull")


def _nag(args: argparse.Namespace) -> tuple[Any, int] | None:
    """Say first, on stderr, what bills for nothing; a completion is asked for by the shell, not by a person.

    Returns the home and how far its ledger had come.
    """
    if args.command == "completion":
        return None
    from leasehold import api

    from . import output

    home = api.open_home()
    close = api.close_home(home)
    nags = [
        str(nag) for nag in api.nags(home) if not nag.answered_by(args.command, _aim(args))
    ]  # else it is being done
    said = [*([close] if close else []), *nags]
    shown = said if args.command == "status" else said[:1]
    more = f" ({len(said) - 1} more: lease status)" if len(said) > len(shown) else ""
    for text in shown:
        output.say(output.paint(f"! {text}{more}", "yellow"))
    return home, api.newest_event(home)


def _say_reopened(known: tuple[Any, int] | None) -> None:
    """Say last, on stderr, whose box answered though a person had called it stopped."""
    if known is None:
        return
    from leasehold import api

    from . import output

    for text in api.reopened(*known):
        output.say(output.paint(f"! {text}", "yellow"))


def _aim(args: argparse.Namespace) -> str:
    """The run, lease or box that a command names; `lease run` names a box."""
    if args.command == "run":
        return args.on or "local"
    return str(getattr(args, "run", "") or getattr(args, "lease", "") or "")


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """Describe every command, or just the one that was typed: describing all twenty costs more than running one."""
    wanted = only if only in _COMMANDS else ""
    parser = argparse.ArgumentParser(
        prog="lease",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=HelpText,
    )
    parser.add_argument("--version", action="version", version=f"lease {leasehold.__version__}")
    parser.set_defaults(command=None)
    # With prog said, argparse does not load shutil and its decompressors to find it out.
    verbs = _Verbs(parser.add_subparsers(title="commands", metavar="COMMAND", prog="lease"), wanted)
    _run(verbs)
    add_front_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    add_plan_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    add_ckpt_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    add_sweep_parser(lambda name, about, example: _verb(verbs, name, about, example))
    add_status_parser(lambda name, about, example: _verb(verbs, name, about, example))
    _seeing(verbs)
    add_plot_parser(lambda name, about, example: _verb(verbs, name, about, example))
    add_enter_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    _home(verbs)
    add_ending_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    add_hygiene_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    add_doctor_parsers(lambda name, about, example: _verb(verbs, name, about, example))
    if wanted in ("", "box"):
        add_box_parser(verbs.all)
    return parser


class _Verbs:
    """The sub-commands; when one was typed, the others are waved through undescribed."""

    def __init__(self, every: Verbs, wanted: str) -> None:
        self.all = every
        self._wanted = wanted

    def add_parser(self, name: str, **facts: Any) -> Any:
        """Describe a command, or take its description into the void."""
        return self.all.add_parser(name, **facts) if self._wanted in ("", name) else _Void()


class _Void:
    """Stands for a command that was not typed."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **facts: self


def _verb(verbs: _Verbs, name: str, about: str, example: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=about, description=about, epilog=example and f"example:\n{example}",
        formatter_class=HelpText,
    )  # fmt: skip
    parser.set_defaults(command=name)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return parser


def _run(verbs: _Verbs) -> None:
    run = _verb(
        verbs,
        "run",
        "run a job: smoke, launch, watch, bring home, verify; the identical command attaches or resumes",
        "  lease run                                 ./lease.yaml on this machine\n"
        "  lease run train.yaml --on ssh:gpu1 --price 1.98USD/h --detach",
    )
    run.add_argument("job", nargs="?", default="lease.yaml", help="job file (default: lease.yaml)")
    run.add_argument(
        "--on",
        default="",
        metavar="BOX",
        help="local, a name of the box book, ssh:ALIAS or ssh:[user@]host[:port]; several, with commas, share cells "
        "(default: the first of the job's candidates that answers and fits; without candidates, local)",
    )
    run.add_argument(
        "--skip-gate",
        action="append",
        default=[],
        metavar="NAME",
        help="pass by a gate (audit, env, smoke, launch); needs --because, and is recorded",
    )
    run.add_argument(
        "--platform",
        default="",
        metavar="ID",
        help="with --on ssh:…: whose rules hold there; remembered (lease platforms)",
    )
    add_sweep_options(run)
    run.add_argument("--because", default="", metavar="WHY", help="why a gate is skipped")
    run.add_argument("--root", default="", metavar="DIR", help="our folder on the box (default: ~/.leasehold there)")
    run.add_argument(
        "--results",
        default="",
        metavar="DIR",
        help="where results come home to (default: lease-results beside the job file)",
    )
    run.add_argument(
        "--price", default="", metavar="1.98USD/h", help="what the box costs, so that the meter can be shown"
    )
    run.add_argument(
        "--balance", default="", metavar="50USD", help="what its account holds: recorded, and judged by the plan gate"
    )
    run.add_argument("--spot", action="store_true", help="the box can be taken away: recorded, and judged")
    run.add_argument(
        "--detach",
        "-d",
        action="store_true",
        help="return once the run is seen alive over a second connection",
    )
    run.add_argument("--again", action="store_true", help="run the same job and code once more, as a new run")
    run.add_argument(
        "--alongside", action="store_true", help="start even if another version of this job runs on the box"
    )
    run.add_argument(
        "--rehearse",
        action="store_true",
        help="with --on local: a simulated rental whose `down` really deletes the box",
    )


def _seeing(verbs: _Verbs) -> None:
    watch = _verb(
        verbs,
        "watch",
        "follow a run's events and log to its end; Ctrl-C leaves it running",
        "  lease watch myjob",
    )
    watch.add_argument("run")
    logs = _verb(
        verbs,
        "logs",
        "print a run's log, or its patrol's lines",
        "  lease logs -f myjob\n  lease logs --patrol --since 2h myjob     a line a minute: step, cards, disks, alarms",
    )
    logs.add_argument("run")
    logs.add_argument("-f", "--follow", action="store_true", help="keep following")
    logs.add_argument("--cell", default="main", help="which cell (default: main)")
    logs.add_argument("--attempt", type=int, default=0, metavar="N", help="which attempt (default: the newest)")
    logs.add_argument("--patrol", action="store_true", help="what the box measured instead: a line a minute")
    logs.add_argument("--since", default="", metavar="2h", help="with --patrol: only the last so long")
    show = _verb(verbs, "show", "say everything this home knows of a run", "  lease show myjob --json")
    show.add_argument("run")


def _home(verbs: _Verbs) -> None:
    pull = _verb(
        verbs,
        "pull",
        "bring a run's results home, resumable, and verify them by hash and by load; of a live run, what is finished",
        "  lease pull myjob\n  lease pull myjob --limit-rate 10MB",
    )
    pull.add_argument("run")
    add_wait(pull)
    pull.add_argument("--limit-rate", default="", metavar="10MB", help="at most so many bytes a second")
    verify = _verb(
        verbs,
        "verify",
        "read the home copy again and compare it with its receipt; needs no box",
        "  lease verify myjob",
    )
    verify.add_argument("run")


if __name__ == "__main__":
    sys.exit(main())
