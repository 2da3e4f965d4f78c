"""Write a first job file from the found facts; every guess states its origin."""

from __future__ import annotations

import re
from collections.abc import Sequence

from leasehold.kit.files.paths import NAME
from leasehold.lifecycle.init.look.code_signs import TRACKERS
from leasehold.lifecycle.init.look.needs import setup_lines
from leasehold.lifecycle.init.options.tiny import in_tiny, mentions, processes, shrinking, with_flag
from leasehold.lifecycle.init.saves.promises import EVERYTHING, Promises, find_promises
from leasehold.lifecycle.init.text.page import COMMANDS_SAY, FILL_IN, GUESS, PLACEHOLDER, Page, scalar
from leasehold.lifecycle.init.text.project_facts import Entry, Flag, Output, ProjectFacts, Role
from leasehold.lifecycle.project.ignored_data import LeftHome

from .resume_line import Resume, find_resume, state_of

_REFUSE = "echo 'lease.yaml is not filled in yet: look for FILL IN' >&2; exit 1"
_AT_RESUME = " {{resume}}"
_MOST_DATA, _MOST_DATA_BYTES = 12, 2 << 30
_SMOKE_STEPS, _MOST_SMOKE_STEPS = 3, 50


def write_job(facts: ProjectFacts, ignored: Sequence[LeftHome] = ()) -> str:
    """Write a commented job file that parses, whatever was or was not found.

    `ignored` are files that git ignores, which are not sent with the code, and that commands or code name.
    """
    page, promises = Page(), find_promises(facts)
    _head(page, facts)
    page.put("name", job_name(facts.name))
    entry = facts.entry
    resume = find_resume(facts, promises.artifacts, entry.command) if entry is not None else None
    command = _run(page, facts, promises, resume)
    _resume(page, resume)
    _env(page, facts, resume)
    _smoke(page, facts, promises, command, _AT_RESUME if resume is not None else "")
    _setup(page, facts)
    _data(page, ignored)
    write_artifacts(page, promises)
    _checkpoint(page, facts, promises, resume)
    _secrets(page, facts)
    _resources(page, command)
    write_tail(page)
    return page.text()


def job_name(text: str) -> str:
    """Make a valid job name from a word."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:60].rstrip("-._")
    return word if NAME.match(word) else "job"


def _head(page: Page, facts: ProjectFacts) -> None:
    page.say("Written by `lease init` from what it could read here; nothing of this project was run.")
    page.say(f"{FILL_IN} marks what it could not know, {GUESS} what it is unsure of. Every key: docs/job-file.md")
    page.say(COMMANDS_SAY)
    if facts.truncated:
        page.say(f"This folder is large: only a part of it was looked at ({facts.files_seen} files).")
    for sign in facts.unread[:3]:
        page.say(f"  not read: {sign.where} ({sign.word})")
    page.gap()


def _run(page: Page, facts: ProjectFacts, promises: Promises, resume: Resume | None) -> str:
    page.gap()
    entry = facts.entry
    if entry is None:
        _say_no_entry(page, facts)
        page.put("run", _REFUSE)
        return ""
    page.say(f"{entry.path}: {entry.why} ({entry.where}).")
    for other in facts.entries[1:3]:
        if other.score * 5 >= entry.score * 3:
            page.say(f"  also possible: {other.command} ({other.why})")
    _say_outputs(page, facts, promises)
    command = _with_required(page, entry, facts.flags)
    for flag in facts.flags:
        if flag.role is Role.DATA and flag.default and flag.default != "None":
            page.say(f"  data: {flag.name} is {flag.default} unless set ({flag.where})")
    for sign in facts.data[:4]:
        page.say(f"  data: {sign.word}: {sign.note} ({sign.where})")
    page.put("run", promises.dress(command, _AT_RESUME if resume is not None else ""))
    return command


def _resume(page: Page, resume: Resume | None) -> None:
    if resume is None:
        return
    page.gap()
    page.say(
        f"After a kill: {{{{resume}}}} is these flags ({resume.where}) with the newest whole checkpoint below "
        f"$LEASE_OUT ({resume.saved.where} {resume.saved.call}); as long as there is none, it is nothing."
    )
    page.open("resume")
    page.put("when", resume.when, indent=2)
    page.put("flags", resume.flags, indent=2)


def _env(page: Page, facts: ProjectFacts, resume: Resume | None) -> None:
    """Let a run load what it saved itself, where that may hold classes and the code sets no weights_only."""
    if resume is None or not resume.saved.opaque or facts.load_modes:
        return
    page.gap()
    page.say(
        f"{GUESS}: its own checkpoints may hold classes beside tensors, which torch 2.6 and later load only with this. "
        "It holds for every torch.load() of the run: leave it out if the run loads files of others."
    )
    page.open("env")
    page.put_env("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")


def _say_no_entry(page: Page, facts: ProjectFacts) -> None:
    page.say(f"{FILL_IN}: no file was found that looks like a training script.")
    for notebook in facts.notebooks[:2]:
        page.say(f"  {notebook} is a notebook; a script of it: jupyter nbconvert --to script {notebook}")


def _say_outputs(page: Page, facts: ProjectFacts, promises: Promises) -> None:
    for sign in facts.lease_out[:1]:
        page.say(f"It reads $LEASE_OUT by itself ({sign.where}).")
    for flag in promises.flags.values():
        page.say(f"{flag.name} ({flag.where}) points it at $LEASE_OUT, the folder that comes home.")
    for flag in promises.switches:
        page.say(f"{flag.name} ({flag.where}) makes it save at all.")
    if promises.links:
        page.say(
            f"{GUESS}: it writes to {', '.join(promises.links)}/ beside the code; the links put that into $LEASE_OUT."
        )
    if promises.files:
        page.say(f"It writes {', '.join(promises.files)} beside the code; links put that into $LEASE_OUT.")
    if promises.copies:
        page.say(
            f"{GUESS}: it writes {', '.join(promises.copies)} beside the code; the last line copies that, but only "
            "after a whole run. Better: write to os.environ['LEASE_OUT']."
        )
    if not (facts.lease_out or promises.flags or promises.links or promises.files or promises.copies):
        page.say(f"{FILL_IN}: nothing shows that it writes to os.environ['LEASE_OUT']; only what is there comes home.")


def _with_required(page: Page, entry: Entry, flags: tuple[Flag, ...]) -> str:
    command = entry.command
    for flag in flags:
        if flag.required and flag.role is not Role.OUTPUT and not mentions(command, flag):
            page.say(f"{FILL_IN}: {flag.name} is required ({flag.where}).")
            command = with_flag(command, flag, PLACEHOLDER)
    return command


def _smoke(page: Page, facts: ProjectFacts, promises: Promises, command: str, last: str) -> None:
    page.gap()
    page.say("The same in tiny, on this machine's CPU, before anything is paid for.")
    flags = shrinking(facts.flags)
    if not command:
        page.put("smoke", _REFUSE)
    elif flags:
        page.say("  shortened by " + ", ".join(f"{flag.name} ({flag.where})" for flag in flags))
        if all(flag.role is not Role.STEPS for flag in flags):
            page.say(f"  {GUESS}: one epoch may still be long on a CPU; LEASE_SMOKE=1 is set for your script to see.")
        page.put(
            "smoke", promises.dress(in_tiny(command, flags, _steps_to_a_log_line(page, facts, promises, flags)), last)
        )
    else:
        page.say(f"{FILL_IN}: no flag for steps or epochs was seen. LEASE_SMOKE=1 is set for your script to see.")
        if PLACEHOLDER in command:
            page.put("smoke", _REFUSE)
        else:
            page.suggest(f"smoke: {scalar(command + ' --steps 3')}")


def _steps_to_a_log_line(page: Page, facts: ProjectFacts, promises: Promises, flags: list[Flag]) -> str:
    """Return every how many steps a promised table is written, where no flag sets it; else nothing."""
    tables = [output for output in promises.artifacts if output.loads in ("csv", "jsonl")]
    if not tables or any(flag.role is Role.LOGGING for flag in facts.flags):
        return ""
    pauses = [sign for sign in facts.log_pauses if _SMOKE_STEPS < int(sign.note) <= _MOST_SMOKE_STEPS]
    if not pauses or all(flag.role is not Role.STEPS for flag in flags):
        return ""
    slowest = max(pauses, key=lambda sign: int(sign.note))
    page.say(f"  {slowest.note} steps: {slowest.word} ({slowest.where}), and {tables[0].pattern} is promised.")
    return slowest.note


def _setup(page: Page, facts: ProjectFacts) -> None:
    page.gap()
    chosen = setup_lines(facts.requirements)
    packages = [sign for sign in facts.requirements if sign.note == "package"]
    if packages:
        page.say(
            f"{packages[0].where} makes this a package. It is not installed: the run imports its own copy, by the "
            "folder of its script or by PYTHONPATH in `run`. `pip install -e` would give later runs this one's code."
        )
    if not chosen:
        page.suggest("setup: pip install -r requirements.txt", f"{FILL_IN} if needed: no requirements file was seen")
        return
    page.say("Once on the box, before the first attempt: " + ", ".join(str(sign.where) for sign in chosen) + ".")
    for sign in chosen:
        if " names " in sign.note:
            page.say(f"{sign.note}: where the box's image has its own build, that stays and such lines are left out.")
            page.say("  `setup_frameworks: replace` installs yours instead.")
    others = [str(sign.where) for sign in facts.requirements if sign not in chosen]
    if others:
        page.say(f"  also seen: {', '.join(others[:6])}")
    page.put("setup", " && ".join(sign.word for sign in chosen))


def _data(page: Page, ignored: Sequence[LeftHome]) -> None:
    """Add the data that the code reads and git ignores; large data only when a person confirms it."""
    if not ignored:
        return
    page.gap()
    page.say("Ignored by git, so it is not sent with the code; as `data:` it is uploaded once to each box, read-only.")
    page.say(*(f"  {one}".rstrip(",") for one in ignored[:_MOST_DATA]))
    paths = [one.path.rstrip("/") for one in ignored[:_MOST_DATA]]
    if sum(one.bytes for one in ignored) <= _MOST_DATA_BYTES and len(ignored) <= _MOST_DATA:
        page.put_list("data", paths)
    else:
        page.suggest(f"data: [{', '.join(scalar(path, in_flow=True) for path in paths)}]", f"{FILL_IN}: it is much")


def write_artifacts(page: Page, promises: Promises) -> None:
    """Write what must come home, or everything when nothing is known."""
    page.gap()
    page.say("What must come home, below $LEASE_OUT, and how it must load. Each must exist when the run ends well.")
    for output in promises.lost[:6]:
        shown = output.pattern or "a path that only a run would know"
        page.say(f"  {FILL_IN}: {output.where} {output.call} writes {shown}, below {output.base.value}.")
    page.open("artifacts")
    for output in promises.artifacts:
        _artifact(page, output)
    if not promises.artifacts:
        page.put(EVERYTHING, "bytes", f"{GUESS}, {FILL_IN}: every file, loaded by nothing; name yours", indent=2)
    for output in promises.aside[:4]:
        page.suggest(f"{scalar(output.pattern)}: {output.loads}", f"{GUESS}: {output.where} {output.call}", indent=2)


def _artifact(page: Page, output: Output) -> None:
    why = f"{output.where} {output.call}"
    if not output.keys and not output.opaque:
        page.put(output.pattern, output.loads, why, indent=2)
        return
    page.open(output.pattern, why, indent=2)
    page.put("loads", output.loads, indent=4)
    if output.keys:
        page.put_list("keys", output.keys, indent=4)
    if output.opaque:
        page.put_number("allow_opaque", True, f"{GUESS}: it seems to hold classes beside tensors", indent=4)


def _checkpoint(page: Page, facts: ProjectFacts, promises: Promises, resume: Resume | None) -> None:
    page.gap()
    itself = [sign for sign in facts.resumes if not sign.note]
    if itself and resume is None:
        page.say(f"It seems to resume by itself: {itself[0].word} ({itself[0].where}).")
    elif resume is None:
        _say_no_resume(page, facts)
    elif any(sign.word == "lightning" for sign in facts.trainers):
        (where,) = [sign.where for sign in facts.trainers if sign.word == "lightning"][:1]
        page.say(
            f"Lightning's Trainer ({where}) saves when its callbacks say so. leasehold.checkpoint.lightning saves as "
            "often as pays, on request and at the end, in two lines (docs/checkpoints.md)."
        )
    state = state_of(promises.artifacts)
    if state is None:
        page.suggest("checkpoint: {path: last.pt, size: 3GB, write_time: 30s}", FILL_IN)
        return
    page.open("checkpoint")
    page.put("path", state[0], f"{state[1].where} {state[1].call}", indent=2)
    page.suggest("size: 3GB", f"{FILL_IN}: for the disk budget", indent=2)


def _say_no_resume(page: Page, facts: ProjectFacts) -> None:
    if facts.resumes:
        page.say(
            f"{FILL_IN}: it resumes {facts.resumes[0].note} ({facts.resumes[0].where}). After a kill the same command",
            "  is started again: it should look in $LEASE_OUT by itself, or be given the flag by `resume:`.",
        )
    else:
        page.say(
            f"{FILL_IN}: nothing seems to load the latest checkpoint at the start. After a kill the same command is",
            "  started again, so it should look in $LEASE_OUT first, or be given a flag by `resume:`.",
        )
        for flag in facts.flags:
            if flag.role is Role.RESUME:
                page.say(f"  {flag.name} ({flag.where}) may be the way.")
    for sign in facts.trainers[:1]:
        page.say(f"  Two lines let it save and resume: leasehold.checkpoint.{sign.word} (docs/checkpoints.md).")


def _secrets(page: Page, facts: ProjectFacts) -> None:
    page.gap()
    wanted: dict[str, str] = {}
    for sign in facts.trackers:
        tracker, names = TRACKERS[sign.word]
        if names and sign.note:
            page.say(f"{GUESS}: it uses {tracker} {sign.note} ({sign.where}); then it needs {', '.join(names)}.")
        elif names:
            wanted |= dict.fromkeys(names, f"{tracker}, {sign.where}")
    wanted |= {sign.word: f"{sign.note}, {sign.where}" for sign in facts.secrets}
    if not wanted:
        page.suggest(
            "secrets: [WANDB_API_KEY]", "names only; values come from your environment at launch, never stored"
        )
        return
    page.say("Names only: the values come from your environment at launch and are never stored at home.")
    for name, why in wanted.items():
        page.say(f"  {name}: {why}")
    page.put_list("secrets", wanted)


def _resources(page: Page, command: str) -> None:
    page.gap()
    count = processes(command)
    if count > 1:
        page.say(f"The command starts {count} processes on one machine.")
        page.open("resources")
        page.open("gpu", indent=2)
        page.put_number("count", count, indent=4)
        page.suggest("memory: 24GB+", FILL_IN, indent=4)
        return
    page.suggest("resources: {gpu: {count: 1, memory: 24GB+}, disk: 50GB}", f"{FILL_IN}: what the box must have")


def write_tail(page: Page, expect: str = "", why: str = "", attempts: int = 0) -> None:
    """Write progress, duration and budget."""
    page.gap()
    page.put("progress", "auto", "or a regex with (?P<step>...)")
    if expect:
        page.put("expect", expect, why)
    else:
        page.suggest("expect: 6h", f"{FILL_IN}: how long it should take")
    page.suggest("budget: 20USD", "what it may cost")
    if attempts:
        page.put_number("attempts", attempts, "how often a killed trainer is started again")
