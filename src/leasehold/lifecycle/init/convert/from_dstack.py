"""Convert dstack's task configuration, as its reference describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.files.paths import UnsafePath, check_relative

from .draft import Draft
from .report import Report
from .script import Script, join_scripts, split_installs, take_out_secrets
from .units import Cards, dstack_seconds, read_card, read_count, read_size, say_duration

TYPES = ("task", "dev-environment", "service", "fleet", "volume", "gateway")
_PLACE = "--on or `candidates` chooses the box"
_IMAGE = "the box's image is chosen when it is rented; install what is missing in `setup`"
_REASONS = {
    "image": _IMAGE, "docker": _IMAGE, "nvcc": _IMAGE, "entrypoint": _IMAGE, "privileged": _IMAGE, "user": _IMAGE,
    "registry_auth": _IMAGE, "python": "the box has its own Python; name another in `run`, or make it in `setup`",
    "nodes": "a run has one box", "startup_order": "a run has one box", "stop_criteria": "a run has one box",
    "ports": "no port is opened; results come home as files",
    "volumes": "no volume is mounted; fetch data in `setup`, write results to $LEASE_OUT",
    "files": "only the folder of the job file travels; move them there",
    "repos": "the code comes from your folder, not from a repository; clone it first",
    "working_dir": "a command starts in a private copy of your folder",
    "backends": _PLACE, "regions": _PLACE, "availability_zones": _PLACE, "instance_types": _PLACE, "fleets": _PLACE,
    "reservation": _PLACE, "instance_name": _PLACE, "pool_name": _PLACE, "creation_policy": _PLACE,
    "spot_policy": "whether a box may be taken away is a matter of the platform; `attempts` restarts what was killed",
    "retry": "`attempts` restarts what was killed; an exit with an error is never repeated blindly",
    "retry_policy": "`attempts` restarts what was killed; an exit with an error is never repeated blindly",
    "max_price": "`budget` is for the whole run",
    "idle_duration": "nothing stops by itself before its results are home: `lease down`, or when_done: park",
    "termination_policy": "nothing stops by itself before its results are home: `lease down`",
    "stop_duration": "`lease stop --grace` says how long a stop may take",
    "utilization_policy": "an idle card is reported, never a reason to kill",
    "schedule": "nothing is scheduled; start it when you want it", "priority": "nothing is queued",
    "tags": "boxes are not labelled", "shell": "run is given to sh; what needs bash is put into bash -c",
    "single_branch": "the code comes from your folder", "home_dir": "it has no effect in dstack either",
    "setup": "it has no effect on a task in dstack either",
}  # fmt: skip
_HERE = ("type", "name", "commands", "env", "resources", "max_duration", "artifacts")


def from_dstack(value: Mapping[str, Any], lines: Mapping[str, int], source: str) -> Draft:
    """Carry a task over; report what has no counterpart, with its line."""
    if value.get("type") != "task":
        raise UserError(
            "init.not_a_task", f"{source} describes a {value.get('type')}, not a task that ends",
            hint="only what runs and ends can be carried over",
        )  # fmt: skip
    draft = Draft("dstack", source, name=str(value.get("name") or ""))
    report = draft.report
    if draft.name:
        report.did(lines.get("name", 0), "name")
    _variables(value.get("env"), lines, report)
    _commands(value.get("commands"), lines, draft)
    _resources(value.get("resources"), lines, draft)
    _limits(value, lines, draft)
    for key in value:
        if key not in _HERE and not (key == "nodes" and value[key] == 1):
            report.left(lines.get(str(key), 0), str(key), _REASONS.get(str(key), "not known to `lease init`"))
    count = str(draft.cards.count if draft.cards else 0)
    draft.finish(
        {
            "DSTACK_RUN_NAME": '"$LEASE_RUN"', "DSTACK_RUN_ID": '"$LEASE_RUN"', "DSTACK_NODES_NUM": "1",
            "DSTACK_NODE_RANK": "0", "DSTACK_GPUS_NUM": count, "DSTACK_GPUS_PER_NODE": count,
            "DSTACK_MASTER_NODE_IP": "127.0.0.1", "DSTACK_NODES_IPS": "127.0.0.1", "DSTACK_WORKING_DIR": '"$PWD"',
        },
        "DSTACK",
    )  # fmt: skip
    return draft


def _variables(found: Any, lines: Mapping[str, int], report: Report) -> None:
    """Read a map, or a list of NAME=value and NAME; a bare name takes its value from the launch's environment."""
    start = lines.get("env", 0)
    if isinstance(found, dict):
        pairs = [(str(name), content, lines.get(f"env.{name}", start)) for name, content in found.items()]
    elif isinstance(found, list):
        split = [str(item).partition("=") for item in found]
        pairs = [
            (name, content if equals else None, lines.get(f"env.{at}", start))
            for at, (name, equals, content) in enumerate(split)
        ]
    else:
        pairs = []
        if found is not None:
            report.left(start, "env", "it should be a map or a list")
    for name, content, line in pairs:
        if isinstance(content, dict | list):
            report.left(line, f"env.{name}", "its value is no text")
        elif content is not None and re.search(r"\$\{\{\s*secrets\.", str(content)):
            report.take_secret(name, "", line)
        else:
            report.take_variable(name, None if content is None else str(content), line)


def _commands(found: Any, lines: Mapping[str, int], draft: Draft) -> None:
    """Join commands the way dstack does: the first that fails ends the task."""
    line = lines.get("commands", 0)
    if not found:
        return
    if not isinstance(found, list):
        draft.report.left(line, "commands", "it should be a list")
        return
    parts = []
    for at, command in enumerate(found):
        text, start = str(command), lines.get(f"commands.{at}", line)
        parts.append(Script.starting(text.rstrip("\n"), start + 1 if "\n" in text else start))
    whole = take_out_secrets(join_scripts(parts), draft.report)
    setup, run = split_installs(whole)
    if setup:
        draft.setup = _stopping(setup)
        draft.report.did(setup.numbers[0], "leading installs -> setup")
    draft.run = _stopping(run) if "\n" in run.text else run
    draft.report.did(line, "commands -> run")


def _stopping(script: Script) -> Script:
    return join_scripts([Script("set -e", script.numbers[:1]), script])


def _resources(found: Any, lines: Mapping[str, int], draft: Draft) -> None:
    if not isinstance(found, dict):
        if found is not None:
            draft.report.left(lines.get("resources", 0), "resources", "it should map keys to values")
        return
    for key, content in found.items():
        line = lines.get(f"resources.{key}", 0)
        if key == "gpu":
            _cards(content, line, draft)
        elif key == "disk":
            size = content.get("size") if isinstance(content, dict) else content
            draft.disk = read_size(str(size).partition("..")[0])
            if draft.disk:
                draft.report.did(line, f"disk -> resources.disk {draft.disk}")
            else:
                draft.report.left(line, "resources.disk", "it names no least size")
        else:
            why = {"cpu": "CPU cores", "memory": "the host's memory", "shm_size": "shared memory"}.get(str(key))
            reason = f"a job has no key for {why}; choose the box by it" if why else "not known to `lease init`"
            draft.report.left(line, f"resources.{key}", reason)


def _cards(content: Any, line: int, draft: Draft) -> None:
    """Parse 2, A100, 80GB, A100:80GB:2, 24GB..80GB, nvidia:A100,H100:1..4 or a map of name, memory and count."""
    facts = _spec(content) if not isinstance(content, dict) else {str(key): value for key, value in content.items()}
    names = facts.get("name") or []
    names = [str(name) for name in names] if isinstance(names, list) else str(names).split(",")
    least, dots, most = str(facts.get("count", 1)).partition("..")
    if least == "0" and not most.strip("0"):
        return
    count = read_count(least or "1")
    name, memory_of_name = read_card(names[0]) if names else ("", "")
    if count is None or (names and not name):
        draft.report.left(line, "resources.gpu", "it is no whole number of a GPU known by name")
        return
    draft.cards = Cards(name, count, _memory(facts.get("memory")) or memory_of_name)
    draft.report.did(line, "gpu -> resources.gpu")
    for other in names[1:]:
        draft.report.left(line, f"gpu name {other}", "a job asks for one kind of card")
    if dots and most != least:
        draft.report.left(line, f"gpu count {facts['count']}", "a job asks for one number; the least is taken")
    for key in facts:
        if key not in ("name", "memory", "count", "vendor"):
            draft.report.left(line, f"gpu {key}", "a job has no key for it")


def _spec(content: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for token in re.sub(r"\s", "", str(content)).split(":"):
        if token.lower() in ("nvidia", "amd", "google", "tpu", "intel", "tenstorrent"):
            facts["vendor"] = token.lower()
        elif token[:1].isalpha():
            facts["name"] = token.split(",")
        elif re.search("[A-Za-z]", token):
            facts["memory"] = token
        else:
            facts["count"] = token or "1"
    return facts


def _memory(content: Any) -> str:
    """Format a range of one GPU's memory; GPUs named 80GB have 80 GiB, so the upper end is in GiB."""
    if content is None:
        return ""
    least, dots, most = str(content).replace(" ", "").partition("..")
    low, high = read_size(least).replace("iB", "B"), read_size(most)
    if not dots:
        return low
    if not high:
        return f"{low}+" if low else ""
    return f"{low or '1GB'}-{high}"


def _limits(value: Mapping[str, Any], lines: Mapping[str, int], draft: Draft) -> None:
    if "max_duration" in value:
        seconds, line = dstack_seconds(value["max_duration"]), lines.get("max_duration", 0)
        if seconds:
            draft.expect = say_duration(seconds)
            draft.report.did(line, f"max_duration -> expect {draft.expect}")
        else:
            draft.report.left(line, "max_duration", "it sets no limit")
    named = value.get("artifacts")
    for item in named if isinstance(named, list) else ():
        path = str(item.get("path") if isinstance(item, dict) else item).strip("/").removeprefix("./")
        line = lines.get("artifacts", 0)
        try:
            draft.artifacts.append((check_relative(f"{path}/**"), line))
            draft.report.did(line, f"artifacts {path} -> artifacts; it must lie below $LEASE_OUT")
        except UnsafePath as error:
            draft.report.left(line, "artifacts", str(error))
