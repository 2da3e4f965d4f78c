"""The table of all commands: name, purpose, and the places of the options and of the function.

No command's module is imported before the command is typed.
"""

from __future__ import annotations

import os
from importlib import import_module

TYPE_CHECKING = False  # importing typing takes longer than loading all of this
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

START, SEE, HOME, END, CARE, LOOK = GROUPS = ("start", "see", "bring home", "end", "care for a box", "look up")
_NOUNS = ("run", "box", "landlord", "refuge", "k8s")
UNDER = ""  # group of a command that is listed under its noun: lease box --help


class Command:
    """A row: `place` is MODULE.FUNCTION, in parsers/MODULE_parser.py and in commands/MODULE.py."""

    __slots__ = ("group", "name", "old", "place", "summary")

    def __init__(self, name: str, group: str, summary: str, place: str, old: str = "") -> None:
        self.name, self.group, self.summary, self.place, self.old = name, group, summary, place, old

    def parser_function(self) -> Any:
        """Import the function that adds this command's options to a parser."""
        module, _, function = self.place.partition(".")
        return getattr(import_module(f"leasehold.shells.cli.parsers.{module}_parser"), function)

    def run_function(self) -> Any:
        """Import the function that runs this command."""
        module, _, function = self.place.partition(".")
        return getattr(import_module(f"leasehold.shells.cli.commands.{module}"), function)

    @property
    def is_noun(self) -> bool:
        """Return whether this is only the first word of other commands."""
        return not self.place


COMMANDS = (
    Command("init", START, "write a commented lease.yaml for this project", "project.init"),
    Command("plan", START, "show what a job would do, cost, delete and risk on each box", "plan.plan"),
    Command("offers", START, "list what could be rented now, by the price of the whole job", "landlord.offers"),
    Command("check", START, "run one gate alone: plan, audit, env, smoke or launch", "project.check"),
    Command("run", START, "run a job; the same command again attaches or resumes", "run.run"),
    Command("resume", START, "continue a stopped or failed run with its own code and job", "run.resume"),
    Command("move", START, "continue a run on another box, from its newest state", "run.move"),
    Command("adopt", START, "watch training that was started without Leasehold", "run.adopt"),
    Command("run fetch", UNDER, "download a job's data on a box and do nothing else", "plan.fetch", "fetch"),
    Command("run cadence", UNDER, "compute how often to write a checkpoint", "ckpt.cadence", "cadence"),
    Command("status", SEE, "list runs: state, step, loss, time left, cost, results", "status.status"),
    Command("watch", SEE, "follow a run's events and log to its end", "watch.watch"),
    Command("attach", SEE, "follow a run that another home started on the same box", "run.attach"),
    Command("logs", SEE, "print a run's log, or what its patrol measured", "watch.logs"),
    Command("show", SEE, "print everything that this home knows about a run", "show.show"),
    Command("plot", SEE, "plot what the box measured: loss, cards, memory, disks", "plot.plot"),
    Command("sweep", SEE, "show the cells of a sweep: state, missing results, metrics", "sweep.sweep"),
    Command("tunnel", SEE, "forward a port of the box, such as TensorBoard's", "box.tunnel"),
    Command("notify", SEE, "set up messages about failures, alarms, budget and the end", "settings.notify"),
    Command("run handbook", UNDER, "print where everything of a run is", "show.handbook", "handbook"),
    Command("pull", HOME, "copy a run's results home and verify them", "run.pull"),
    Command("verify", HOME, "compare the home copy with its receipt; needs no box", "run.verify"),
    Command("stop", END, "end a run's processes; the box keeps billing", "ending.stop"),
    Command("down", END, "stop the meter: results home or waived, and your approval", "ending.down"),
    Command("park", END, "stop the compute meter and keep the disks; reversible", "ending.park"),
    Command("waive", END, "give up a cell's results, after salvaging what exists", "ending.waive"),
    Command("signer", END, "manage the SSH keys that may approve a teardown", "settings.signer"),
    Command("run harmless", UNDER, "let a process keep using a run's folders", "ending.harmless", "harmless"),
    Command("run forget", UNDER, "remove a run from the lists; its results stay", "show.forget", "forget"),
    Command("box", CARE, "name boxes, test them, and look after their cards and disks", ""),
    Command("box add", UNDER, "connect to a box once and save it under a name", "box.box_add"),
    Command("box list", UNDER, "list the saved boxes", "box.box_list"),
    Command("box show", UNDER, "show what is known about a box, its leases and its runs", "box.box_show"),
    Command("box tell", UNDER, "record a balance, a price or a disk size from the console", "box.box_tell"),
    Command("box test", UNDER, "check everything that a run needs on a box", "box.box_test"),
    Command("box gpu", UNDER, "check a box's cards and show who uses them", "hygiene.gpu", "gpu"),
    Command("box disk", UNDER, "show what fills a box's disks, and free space", "hygiene.disk", "disk"),
    Command("box prune", UNDER, "delete code and uploads that no unfinished run uses", "box.box_prune"),
    Command("box reboot", UNDER, "allow runs to continue by themselves after a reboot", "box.box_reboot"),
    Command("box resume", UNDER, "start a parked rented box again; it bills from then", "landlord.box_resume"),
    Command("box remove", UNDER, "delete a saved box; refused while a lease on it is open", "box.box_remove"),
    Command("k8s", CARE, "write a job's Kubernetes objects, list the rights that it needs", ""),
    Command("k8s manifest", UNDER, "write the objects of a job, for review or GitOps", "plan.manifest"),
    Command("k8s rights", UNDER, "check your rights on a cluster, and print the Role", "plan.rights"),
    Command("refuge", CARE, "check a bucket or folder that is to keep checkpoints", ""),
    Command("refuge check", UNDER, "prove that a bucket or folder can keep checkpoints", "ckpt.refuge_check"),
    Command("landlord", CARE, "keys of landlords with an API, and everything that bills there", ""),
    Command("landlord login", UNDER, "check a landlord's API key and keep it", "landlord.login"),
    Command("landlord list", UNDER, "list landlords, where their keys are, what is held", "landlord.list_"),
    Command("landlord check", UNDER, "ask each landlord who we are and for the balance", "landlord.check"),
    Command("landlord sweep", UNDER, "list everything that bills, and who holds it", "landlord.sweep"),
    Command("landlord allow", UNDER, "give a standing approval for rents", "landlord.allow"),
    Command("landlord adopt", UNDER, "put a box that no lease holds on your books", "landlord.adopt"),
    Command("landlord delete", UNDER, "delete storage that a released box left", "landlord.delete"),
    Command("landlord probe", UNDER, "rent the cheapest box and see what its disks survive", "landlord.probe"),
    Command("landlord logout", UNDER, "forget a landlord's key", "landlord.logout"),
    Command("ssh", CARE, "open a shell on a box, or in a run's folder on its box", "box.ssh"),
    Command("exec", CARE, "run a command in a run's folder and environment", "box.execute"),
    Command("doctor", LOOK, "explain why a run died, from logs, a run or a box", "doctor.doctor"),
    Command("lint", LOOK, "find mistakes in Python sources that cost training runs", "doctor.lint"),
    Command("ckpt", LOOK, "inspect a checkpoint: contents, what is missing, safety", "ckpt.ckpt"),
    Command("platforms", LOOK, "show what is known about each platform, with sources", "plan.platforms"),
    Command("completion", LOOK, "print a completion script for bash, zsh or fish", "completion.completion"),
)  # fmt: skip

_BY_NAME = {command.name: command for command in COMMANDS} | {
    command.old: command for command in COMMANDS if command.old
}


def find(words: Sequence[str]) -> tuple[Command | None, list[str]]:
    """Find the command that these words begin with, and the remaining words; a job file wins over a verb."""
    verb = _BY_NAME.get(" ".join(words[:2])) if len(words) > 1 else None
    if verb is not None and not (words[0] == "run" and os.path.isfile(words[1])):
        return verb, list(words[2:])
    return _BY_NAME.get(words[0]), list(words[1:])


def under(noun: str) -> list[Command]:
    """List the commands that begin with this word."""
    return [command for command in COMMANDS if command.name.startswith(noun + " ")]


def near(word: str, noun: str = "") -> list[str]:
    """List the commands that may have been meant."""
    from difflib import get_close_matches

    among = under(noun) if noun else sorted(COMMANDS, key=lambda command: " " not in command.name)
    of = {command.name.rpartition(" ")[2]: command.name for command in among}  # of two `show`, the one without a noun
    return [of[one] for one in ([word] if word in of else get_close_matches(word, of, 3))]


# ---------------------------------------------------------------- help

_ABOUT = """usage: lease COMMAND [ARGUMENT ...]
       lease COMMAND --help
       lease --version

Run deep-learning training on rented GPUs and lose nothing: start it detached, bring the results
home, verified by hash and by loading them, and only then stop the meter, with your approval."""

_EXAMPLES = """examples:
  lease run                              start ./lease.yaml on this machine; again: attach or resume
  lease run --on ssh:root@1.2.3.4:2222   the same job on a rented box
  lease run --on runpod                  rent a box by API, after your yes, and run there
  lease plan --on all                    what it would cost, delete and risk on each platform
  lease status                           every run, newest first
  lease logs -f myjob                    follow the trainer's output
  lease pull myjob                       bring the results home and verify them
  lease down myjob                       check, ask for your approval, then stop the meter

exit codes:
  0 done                      4 the box                          7 results do not verify
  2 your command or file      5 unreachable (state unknown)      8 this home (disk, ledger)
  3 refused by a gate         6 the run failed, no receipt yet    9 a landlord said no"""


def overview() -> str:
    """Format the help of `lease` itself: the commands by purpose."""
    parts = [_ABOUT]
    for group in GROUPS:
        parts.append(f"{group}:\n" + "\n".join(_line(row.name, row) for row in COMMANDS if row.group == group))
    more = [f"  lease {noun} {'|'.join(row.name.split()[1] for row in under(noun))}" for noun in _NOUNS]
    parts.append("more (lease run --help, lease box --help, lease landlord --help):\n" + "\n".join(more))
    return "\n\n".join([*parts, _EXAMPLES]) + "\n"


def noun_overview(noun: str) -> str:
    """Format the commands under one word."""
    return "\n".join(_line(row.name.split()[1], row) for row in under(noun))


def _line(name: str, row: Command) -> str:
    return f"  {name:<10}  {row.summary}"
