"""Convert SkyPilot's task YAML, as its reference describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.errors import UserError

from .draft import Draft
from .report import Report
from .script import Script, take_out_secrets
from .units import Cards, read_card, read_count, read_size

KEYS = {
    "name", "workdir", "num_nodes", "resources", "envs", "secrets", "file_mounts", "volumes", "setup", "run", "config",
    "experimental", "service", "pool", "inputs", "outputs", "event_callback", "file_mounts_mapping",
}  # fmt: skip
_ONE_BOX = "a run has one box"
_CLOUD = "--on or `candidates` chooses the box, not cloud and region"
_RESOURCES = {
    "infra": _CLOUD, "cloud": _CLOUD, "region": _CLOUD, "zone": _CLOUD, "instance_type": _CLOUD,
    "cpus": "a job has no key for CPU cores; choose the box by them",
    "memory": "a job has no key for the host's memory; choose the box by it",
    "use_spot": "whether a box may be taken away is a matter of the platform; `attempts` restarts what was killed",
    "job_recovery": "`attempts` restarts what was killed; an exit with an error is never repeated blindly",
    "disk_tier": "a job asks for free space, not for a kind of disk",
    "local_disk": "a job asks for free space, not for a kind of disk",
    "network_tier": _ONE_BOX,
    "image_id": "the box's image is chosen when it is rented",
    "ports": "no port is opened; results come home as files",
    "labels": "boxes are not labelled",
    "autostop": "nothing stops by itself before its results are home: `lease down`, or when_done: park",
    "accelerator_args": "only TPUs have them",
    "max_hourly_cost": "`budget` is for the whole run",
    "priority": "nothing is queued", "priority_class": "nothing is queued",
    "volumes": "no volume is mounted; let `setup` fetch what it needs",
}  # fmt: skip
_TOP = {
    "config": "settings of SkyPilot itself", "experimental": "settings of SkyPilot itself",
    "inputs": "let `setup` fetch what it needs", "outputs": "name them under `artifacts`",
    "event_callback": "there are no callbacks; see `lease watch`",
    "volumes": "no volume is mounted; let `setup` fetch what it needs",
}  # fmt: skip


def from_skypilot(value: Mapping[str, Any], lines: Mapping[str, int], source: str) -> Draft:
    """Carry a task over; report what has no counterpart, with its line."""
    if "service" in value or "pool" in value:
        raise UserError(
            "init.not_a_task", f"{source} describes a service that stays up, not a task that ends",
            hint="only what runs and ends can be carried over",
        )  # fmt: skip
    draft = Draft("SkyPilot", source, name=str(value.get("name") or ""))
    report = draft.report
    if draft.name:
        report.did(lines.get("name", 0), "name")
    _variables(value, lines, report)
    _scripts(value, lines, draft)
    _resources(value.get("resources"), lines, draft)
    _rest(value, lines, report)
    count = str(draft.cards.count if draft.cards else 0)
    draft.finish(
        {
            "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1", "SKYPILOT_NUM_GPUS_PER_NODE": count,
            "SKYPILOT_NODE_IPS": "127.0.0.1", "SKYPILOT_TASK_ID": '"$LEASE_RUN"',
        },
        "SKYPILOT",
    )  # fmt: skip
    return draft


def _variables(value: Mapping[str, Any], lines: Mapping[str, int], report: Report) -> None:
    for part in ("envs", "secrets"):
        found = value.get(part)
        if found is None:
            continue
        if not isinstance(found, dict):
            report.left(lines.get(part, 0), part, "it should map names to values")
            continue
        for name, content in found.items():
            line = lines.get(f"{part}.{name}", 0)
            if part == "secrets" and isinstance(name, str):
                report.take_secret(name, "" if content is None else str(content), line)
            elif isinstance(content, dict | list):
                report.left(line, f"envs.{name}", "its value is no text")
            else:
                report.take_variable(str(name), None if content is None else str(content), line)


def _scripts(value: Mapping[str, Any], lines: Mapping[str, int], draft: Draft) -> None:
    for part in ("setup", "run"):
        script = value.get(part)
        if script is None:
            continue
        line = lines.get(part, 0)
        if not isinstance(script, str):
            draft.report.left(line, part, "it is no text")
            continue
        first = line + 1 if "\n" in script else line
        setattr(draft, part, take_out_secrets(Script.starting(script, first), draft.report))
        draft.report.did(line, part)


def _resources(found: Any, lines: Mapping[str, int], draft: Draft) -> None:
    if not isinstance(found, dict):
        if found is not None:
            draft.report.left(lines.get("resources", 0), "resources", "it should map keys to values")
        return
    chosen = dict(found)
    places = {str(key): lines.get(f"resources.{key}", 0) for key in found}
    for part in ("any_of", "ordered"):
        given = found.get(part)
        options = [option for option in given if isinstance(option, dict)] if isinstance(given, list) else []
        line = lines.get(f"resources.{part}", 0)
        if given is not None and not options:
            draft.report.left(line, f"resources.{part}", "it should be a list of choices")
        if options:
            chosen = {**chosen, **options[0]}
            places |= {str(key): line for key in options[0]}
            draft.report.did(line, f"resources.{part}: the first of {len(options)} is asked for")
        if len(options) > 1:
            draft.report.left(line, f"resources.{part}", f"{len(options) - 1} further choices; a job asks for one")
    for key, content in chosen.items():
        line = places.get(str(key), 0)
        if key in ("accelerators", "gpus"):
            _cards(content, line, draft)
        elif key in ("disk_size", "ephemeral_storage"):
            draft.disk = read_size(content)
            if draft.disk:
                draft.report.did(line, f"{key} -> resources.disk {draft.disk}")
            else:
                draft.report.left(line, f"resources.{key}", "it is no size")
        elif key not in ("any_of", "ordered"):
            draft.report.left(line, f"resources.{key}", _RESOURCES.get(str(key), "not known to `lease init`"))


def _cards(content: Any, line: int, draft: Draft) -> None:
    """Parse A100:2, {A100: 2}, a list of such (in order) or a set of such (any)."""
    if content is None:
        return
    if isinstance(content, dict):
        options = [f"{name}:{count}" if count is not None else str(name) for name, count in content.items()]
    elif isinstance(content, list):
        options = [str(option) for option in content]
    else:
        options = [str(content)]
    if not options:
        return
    word, _, number = options[0].partition(":")
    name, memory = read_card(word)
    count = read_count(number or "1")
    if not name or count is None:
        draft.report.left(line, f"accelerators {options[0]}", "it is no whole number of a GPU known by name")
        return
    draft.cards = Cards(name, count, memory)
    draft.report.did(line, f"accelerators {options[0]} -> resources.gpu")
    for other in options[1:]:
        draft.report.left(line, f"accelerators {other}", "a job asks for one kind of card")


def _rest(value: Mapping[str, Any], lines: Mapping[str, int], report: Report) -> None:
    for key, content in value.items():
        line = lines.get(str(key), 0)
        if key == "workdir":
            _workdir(content, line, report)
        elif key == "num_nodes":
            if content not in (1, None):
                report.left(line, f"num_nodes {content}", _ONE_BOX)
        elif key == "file_mounts":
            _mounts(content, lines, report)
        elif key not in ("name", "resources", "envs", "secrets", "setup", "run"):
            report.left(line, str(key), _TOP.get(str(key), "not known to `lease init`"))


def _workdir(content: Any, line: int, report: Report) -> None:
    if content in (".", "./"):
        report.did(line, "workdir . -> the folder of the job file")
    elif isinstance(content, str):
        report.left(line, f"workdir {content}", "the code is the folder of the job file; put it there")
    else:
        report.left(line, "workdir", "the code comes from your folder, not from a repository; clone it first")


def _mounts(content: Any, lines: Mapping[str, int], report: Report) -> None:
    if not isinstance(content, dict):
        report.left(lines.get("file_mounts", 0), "file_mounts", "it should map paths to sources")
        return
    for path, source in content.items():
        origin = source.get("source") or source.get("name") if isinstance(source, dict) else source
        remote = "://" in str(origin)
        why = (
            "nothing is mounted; fetch it in `setup`, and write results to $LEASE_OUT"
            if remote or isinstance(source, dict)
            else "only the folder of the job file travels; move it there, or fetch it in `setup`"
        )
        report.left(lines.get(f"file_mounts.{path}", 0), f"file_mounts {path} <- {str(origin)[:120]}", why)
