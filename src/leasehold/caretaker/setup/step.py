"""The step between a claim and a trainer: set-up once per working copy, then the environment gate, then go.

Runs as a child of the attempt's shell, in the trainer's own environment and working folder, so that it needs no
home: the laptop may be gone. Its findings are written beside the attempt's log; the caretaker journals them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.scrub_secrets import redactor_of
from leasehold.kit.files.atomic import read_json, write_atomic, write_json
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.run.editable_installs import EDITABLE_HINT, editable_installs, own_environment
from leasehold.kit.run.processes import boot_id
from leasehold.kit.run.shell_installs import installer_of, point_elsewhere
from leasehold.kit.tables import env_rules
from leasehold.kit.text.redact import Redactor
from leasehold.kit.text.safe_text import one_line

from . import interpreter, keep_frameworks
from .requirements import logical_lines, read_text

_EDITABLE_LINE = re.compile(r"(?:-e|--editable)(?:[\s=]|\Z)")
_MOST_FILES = 20
REFUSED_CODE = 78  # EX_CONFIG
_INSTALLED, _PRIVATE = 0o022, 0o077  # what set-up installs is for every user of the box; what we write is not


class Place(NamedTuple):
    """Paths and facts that the step works with."""

    folder: RunFolder
    cell: str
    attempt: int
    job: Dict[str, Any]
    gate: Dict[str, Any]  # home's wishes for the gate: modules, and whether a person chose to skip it

    @property
    def work(self) -> str:
        """The trainer's working folder."""
        return self.folder.work(self.cell)


def ready(folder: RunFolder, cell: str, attempt: int) -> int:
    """Set up if that was not done, judge the environment if it has not passed; return 0 to let the trainer start."""
    plan = folder.read_plan()
    if plan is None:
        return 1
    place = Place(folder, cell, attempt, plan["job"], read_json(folder.gate) or {})
    before = _recorded(place)
    if place.job.get("setup") and not os.path.exists(folder.setup_done(cell)):
        code = _refuse_editable(place) or _set_up(place, before)
        if code:
            return code
        write_atomic(folder.setup_done(cell), b"")
    return _judge(place, before)


def _refuse_editable(place: Place) -> int:
    """Refuse a set-up after which other runs would import this run's code, or this run another's."""
    setup = place.job["setup"]
    found = editable_installs(setup) + _editable_lines(setup, place.work)
    for line in found:
        _say("setup refused: `%s` is an editable install: later runs would import this run's code" % line)
    if found:
        _say("hint: %s" % EDITABLE_HINT)
    return REFUSED_CODE if found else 0


def _editable_lines(setup: str, work: str) -> List[str]:
    """List the editable lines of requirements files that a set-up reads, as file:line text."""
    files: List[str] = []

    def note(path: str, constraint: bool) -> str:
        files.append(path)
        return path

    if not own_environment(setup):
        point_elsewhere(setup, work, note)
    return [
        "%s:%d %s" % (os.path.relpath(path, work), number, logical[:200])
        for path in files[:_MOST_FILES]
        for number, _, logical in logical_lines(read_text(path) or "")
        if _EDITABLE_LINE.match(logical)
    ]


def _recorded(place: Place) -> Dict[str, Any]:
    """Record the interpreter's packages before this run's first set-up; a retry must not mistake its own for them."""
    path = os.path.join(place.folder.cell(place.cell), "frameworks.json")
    record = read_json(path)
    if record is None:
        starter = _starter(place)
        answer = interpreter.ask(starter, [], dict(os.environ), place.work, strict=True) if starter else {}
        facts = answer.get("facts") or {}
        record = {
            "interpreter": answer.get("interpreter", ""),
            "executable": facts.get("executable", ""),
            "frameworks": facts.get("frameworks", {}),
            "problem": answer.get("problem", "" if starter else "no Python interpreter is named"),
        }
        write_json(path, record)
    return record


def _starter(place: Place) -> Optional[interpreter.Starter]:
    """Return the interpreter that `run` starts; where a script hides it, the one for which set-up's pip installs."""
    found = interpreter.starter_of(place.job["run"])
    pip = installer_of(place.job.get("setup", "")) if found is None else ""
    return interpreter.beside_pip(pip, dict(os.environ), place.work) if pip else found


def _set_up(place: Place, before: Dict[str, Any]) -> int:
    _say("setup")
    setup, environ = place.job["setup"], dict(os.environ)
    present = before["frameworks"] if place.job.get("setup_frameworks", "keep") == "keep" else {}
    into = os.path.join(place.folder.cell(place.cell), "setup")
    prepared = keep_frameworks.prepare(setup, present, place.work, into, environ)
    _record_before(place, before, prepared, present)
    try:
        shell = ["/bin/sh", "-c", prepared.setup]  # it inherits the cell's lock, as a trainer does
        os.umask(_INSTALLED)
        code = subprocess.call(shell, env={**environ, **prepared.environ}, cwd=place.work, close_fds=False)
    finally:
        os.umask(_PRIVATE)
        keep_frameworks.drop_alias(prepared.alias)
    if code == 0:
        return 0
    code = 128 - code if code < 0 else code
    _say("setup failed with exit code %d" % code)
    if "torch" in present:
        _say(
            "hint: the box's torch %s was kept; if pip reports a conflict, a package needs another one: install "
            'from "$LEASE_REQUIREMENTS", or say `setup_frameworks: replace` in the job'
            % present["torch"].get("version", "")
        )
    return code


def _record_before(
    place: Place, before: Dict[str, Any], prepared: keep_frameworks.Prepared, kept: Dict[str, Any]
) -> None:
    if "torch" in kept:
        shown = ("%s %s" % (name, env_rules.say_build(kept[name])) for name in sorted(kept) if kept[name].get("file"))
        _say("this box has %s: kept" % ", ".join(shown))
    for line in prepared.left_out:
        _say("left out: %s" % line)
    if prepared.setup != place.job["setup"]:
        _say("setup runs: %s" % prepared.setup)
    evidence = {"interpreter": before["executable"] or before["interpreter"], "frameworks": before["frameworks"]}
    evidence.update(kept="torch" in kept, left_out=prepared.left_out[:50], problem=before["problem"][:400])
    _write(place, "before.json", evidence)


def _judge(place: Place, before: Dict[str, Any]) -> int:
    passed = place.folder.env_passed(place.cell)
    if os.path.exists(passed):
        return 0
    findings, cached = _findings(place, before)
    findings = _clean(findings, redactor_of(place.folder))
    outcome = env_rules.outcome_of(findings)
    skipped = bool(place.gate.get("skip"))
    verdict = {"outcome": outcome, "findings": findings[:60], "skipped": skipped, "cached": cached}
    _write(place, "env.json", verdict)
    for one in findings:
        if one["outcome"] != env_rules.PASSED:
            _say("%s: %s%s" % (one["outcome"], one["what"], "; hint: " + one["hint"] if one["hint"] else ""))
    _say("env: %s%s" % (outcome, ", skipped" if skipped and outcome != env_rules.PASSED else ""))
    if outcome == env_rules.REFUSED and not skipped:
        return REFUSED_CODE
    write_atomic(passed, b"")
    return 0


def _findings(place: Place, before: Dict[str, Any]) -> Any:
    """Return what the interpreter can import, and whether the project's own packages are this run's copy."""
    found, cached = _imports(place, before)
    return found + _own_copy(place), cached


def _own_copy(place: Place) -> List[Dict[str, str]]:
    """Ask the interpreter that `run` starts where it would import the project's packages from."""
    own = [str(name) for name in place.gate.get("own") or []]
    runner = interpreter.starter_of(place.job["run"]) if own else None
    if runner is None:
        return []
    answer = interpreter.ask(runner, ["own:" + name for name in own], dict(os.environ), place.work)
    return env_rules.judge_own_copy((answer.get("facts") or {}).get("own") or {}, place.work)


def _imports(place: Place, before: Dict[str, Any]) -> Any:
    """Check without importing first, which is cheap; import only if no equal environment has passed since the boot."""
    modules = [str(name) for name in place.gate.get("modules") or []]
    gpus = int((place.job.get("gpu") or {}).get("count", 0))
    runner = interpreter.starter_of(place.job["run"])
    starter = runner or _starter(place)
    if starter is None:
        return [
            env_rules.finding(env_rules.PASSED, "no Python interpreter is named, so there is nothing to ask")
        ], False
    environ = dict(os.environ)
    seen = interpreter.ask(starter, [], environ, place.work)
    facts = seen.get("facts") or {}
    replace = place.job.get("setup_frameworks", "keep") == "replace"
    python = facts.get("executable") or starter.interpreter
    kept = (
        env_rules.judge_frameworks(before["frameworks"], facts.get("frameworks", {}), replace, python) if facts else []
    )
    if runner is None or not (modules or gpus) or seen.get("problem"):
        return env_rules.judge_interpreter(0, [], seen) + kept, False
    wanted = sorted({*modules, *(["torch"] if gpus and "torch" in facts["frameworks"] else [])})
    asked = {"line": runner.line(), "env": place.job.get("env"), "wanted": wanted, "gpus": gpus, "boot": boot_id()}
    key = digest({**asked, **{name: facts[name] for name in ("executable", "version", "installed")}})
    known = read_json(place.folder.env_known(key))
    if known is not None:
        return known["findings"] + kept, True
    answer = interpreter.ask(runner, wanted, environ, place.work)
    found = env_rules.judge_interpreter(gpus, wanted, answer)
    if env_rules.outcome_of(found) == env_rules.PASSED:
        os.makedirs(os.path.dirname(place.folder.env_known(key)), exist_ok=True)
        write_json(place.folder.env_known(key), {"findings": found, "at": round(time.time(), 3)})
    return found + kept, False


def _write(place: Place, name: str, value: Dict[str, Any]) -> None:
    write_json(
        os.path.join(place.folder.attempt(place.cell, place.attempt), name), _clean(value, redactor_of(place.folder))
    )


def _clean(value: Any, redactor: Redactor) -> Any:
    """Remove secrets and terminal escapes from what will be journaled: an import error may quote anything."""
    if isinstance(value, dict):
        return {str(key): _clean(item, redactor) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, redactor) for item in value]
    return one_line(redactor.text(value)) if isinstance(value, str) else value


def _say(text: str) -> None:
    sys.stdout.write("leasehold: %s\n" % text)
    sys.stdout.flush()
