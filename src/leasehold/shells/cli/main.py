"""The lease command: find its row in the table, parse its words, run it, render errors."""

from __future__ import annotations

import gc
import sys

import leasehold

from .table import COMMANDS, Command, find, near, overview, under

TYPE_CHECKING = False  # an import for types takes longer than `lease --help` itself
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any, NoReturn

_GARBAGE = 50_000
_PASS_ON = ("ssh", "exec")  # the words after -- belong to another program


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is not None:
        return _main(argv)
    gc.set_threshold(_GARBAGE)  # what a command loads and reads makes no garbage cycles
    code = _main(sys.argv[1:])
    gc.freeze()  # collecting garbage that is freed at exit anyway takes up to 10 ms
    return code


def _main(words: list[str]) -> int:
    if (text := _about_lease(words)) is not None:
        sys.stdout.write(text)
        return 0
    command, args = parse(words)
    from leasehold.errors import LeaseholdError

    from . import output

    try:
        known = _nag(args)
        try:
            return int(command.run_function()(args))
        finally:
            _say_reopened(known)
    except LeaseholdError as problem:
        output.error(problem, getattr(args, "json", False))
        return problem.exit_code
    except KeyboardInterrupt:
        run = output.Screen.last_run
        output.say(f"\nleft; {run or 'every run'} continues on its box: lease {f'watch {run}' if run else 'status'}")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except Exception as problem:  # noqa: BLE001 - the process boundary: a defect of ours, kept for a report
        output.defect(problem, getattr(args, "json", False))
        return 70


def _about_lease(words: list[str]) -> str | None:
    """Answer --help and --version, which may be shortened; these load nothing else."""
    first = words[0] if words else "--help"
    if first == "-h" or (len(first) > 2 and "--help".startswith(first)):
        return overview()
    if len(first) > 2 and "--version".startswith(first):
        return f"lease {leasehold.__version__}\n"
    return None


def parse(words: list[str]) -> tuple[Command, Namespace]:
    """Read a command line; a wrong one ends the process with exit code 2 and the reason on stderr."""
    command, rest = find(words)
    if command is None:
        _refuse(words[0], "lease", near(words[0]))
    parser = parser_of(command)
    if command.is_noun and rest and not rest[0].startswith("-"):
        _refuse(rest[0], parser.prog, near(rest[0], command.name))
    cut = rest.index("--") if command.name in _PASS_ON and "--" in rest else len(rest)
    args = parser.parse_args(rest[:cut])
    if command.is_noun:
        parser.error(f"which command? {', '.join(row.name.split()[1] for row in under(command.name))}")
    if cut < len(rest):
        args.words = [*args.words, *rest[cut + 1 :]]
    return command, args


def _refuse(word: str, prog: str, meant: list[str]) -> NoReturn:
    """Report an unknown command with near ones, and exit with code 2."""
    what = "unrecognized argument" if word.startswith("-") else "no command"
    hint = f"; did you mean lease {', lease '.join(meant)}?" if meant else ""
    sys.stderr.write(f"{prog}: error: {what} '{word}'{hint}\n{prog} --help lists the commands\n")
    sys.exit(2)


def parser_of(command: Command) -> ArgumentParser:
    """Make the parser of one command; the command's own function adds the options."""
    from argparse import ArgumentParser

    from .help_text import HelpText, add_noun

    about = command.summary[:1].upper() + command.summary[1:] + "."
    parser = ArgumentParser(prog=f"lease {command.name}", description=about, formatter_class=HelpText)
    parser.set_defaults(command=command.name)
    if command.is_noun:
        add_noun(parser, command.name)
        return parser
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    command.parser_function()(parser)
    add_noun(parser, command.name)
    return parser


def parsers() -> dict[str, ArgumentParser]:
    """Make every command's parser, for completion scripts and doc pages; by name, in table order."""
    return {command.name: parser_of(command) for command in COMMANDS}


def _nag(args: Namespace) -> tuple[Any, int] | None:
    """Print warnings about idle billing on stderr, except for a completion, which the shell asks for.

    Returns the home and its ledger's newest event number.
    """
    if args.command == "completion":
        return None
    from leasehold.api import opening

    from . import output

    home = opening.open_home()
    close = opening.close_home(home)
    look = opening.first_look(home, args.command)
    unseen = look.lines() if look is not None else []
    for text in unseen:
        output.say(output.paint(f"! {text}", "red"))
    nags = [
        str(nag) for nag in opening.nags(home) if not nag.answered_by(args.command, _aim(args))
    ]  # else it is being done
    said = [*([close] if close else []), *nags]
    shown = said if args.command == "status" else said[:1]
    more = f" ({len(said) - 1} more: lease status)" if len(said) > len(shown) else ""
    for text in shown:
        output.say(output.paint(f"! {text}{more}", "yellow"))
    return home, opening.newest_event(home)


def _say_reopened(known: tuple[Any, int] | None) -> None:
    """Print which leases were reopened because a box that was reported stopped answered."""
    if known is None:
        return
    from leasehold.api import opening

    from . import output

    for text in opening.reopened(*known):
        output.say(output.paint(f"! {text}", "yellow"))


def _aim(args: Namespace) -> str:
    """Return the run, lease or box that a command names; `lease run` names a box."""
    if args.command == "run":
        return args.on or "local"
    return str(getattr(args, "run", "") or getattr(args, "lease", "") or "")


if __name__ == "__main__":
    sys.exit(main())
