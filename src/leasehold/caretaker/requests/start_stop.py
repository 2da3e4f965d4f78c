"""Start, resume, stop and observe a run: the requests of a connection to the run's one caretaker."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any, Dict

from leasehold.caretaker.attempt.working_copy import prepare_cell
from leasehold.caretaker.moves import fence
from leasehold.caretaker.process import detach
from leasehold.caretaker.process.end_processes import end_processes, poke
from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.handbook import write_handbook
from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.soundness import refuse_newer
from leasehold.caretaker.slurm import engine as slurm
from leasehold.caretaker.status.job_lock import JobTurn
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.supervisor import roster
from leasehold.caretaker.supervisor.stop import request_stop
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json, write_atomic, write_json
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.paths import check_name
from leasehold.kit.run.run_state import fold
from leasehold.kit.run.run_states import FAILED, STOPPED

from .force_stop import wake
from .machine_identity import note_root

_START_LOCK_WAIT_S = 30.0
_LEAVE_WAIT_S = 5.0
_SILENT_S = 30.0  # a caretaker that lives and is silent for this long may be suspended


def start(request: Request) -> None:
    """Open the run if it is new, revive its caretaker if that died, and reply with the current state.

    Idempotent. A run that has ended is not touched: `resume` with the sequence number seen does that.
    """
    if not os.path.exists("/proc/self/stat"):  # stopping finds a run's processes there; without it, it could not
        raise Refused("box.no_proc", "this box has no /proc, so a run on it could not be stopped for sure; use Linux")
    plan = request.args["plan"]
    folder = RunFolder.below(request.root, check_name(plan.get("run"), "run"))
    with JobTurn(folder, request.args):
        _start(request, folder, plan)


def _start(request: Request, folder: RunFolder, plan: Dict[str, Any]) -> None:
    os.makedirs(folder.path, exist_ok=True)
    with StartLock(folder):
        fence.require_open(folder, request.args)
        opened = _open_folder(request, folder, plan)
        if ownership.is_mine(folder, request.args):  # another home with the same plan only attaches
            _keep_budget(request, folder)
            _keep_handbook(request, folder)
            _keep_promises(folder, plan.get("patterns"))
            if slurm.is_slurm(plan):
                slurm.keep_wishes(folder, plan)
                slurm.mend(folder, plan)
        seen = observe(folder)
        new = [] if opened else roster.unheard(plan, seen)
        if new:  # cells join and leave a run by the requests of one home alone
            ownership.require(folder, request.args)
        if not slurm.is_slurm(plan):
            roster.wish_for(folder, new, request.args.get("given") if new or opened else None)
        fence.keep_claim(folder, request.args)
        if not new and (seen["terminal"] or seen["caretaker_alive"]) or seen["state"] == STOPPED:
            woken = wake(folder) if (seen["proof_age_s"] or 0.0) > _SILENT_S else []
            request.reply(dict(seen, did="attached", woken=woken))
            return
        kept = _keep_private(request, folder, plan.get("environment") or {})
        if not slurm.is_slurm(plan):
            kept["relaunch"] = _keep_relaunch(request, folder)
        if new and seen["caretaker_alive"] and not slurm.is_slurm(plan):
            roster.wake(folder)
        else:
            _revive(folder, plan, seen["seq"])
        did = "opened" if opened else "added" if new else "revived"
        request.reply(dict(observe(folder), did=did, **kept))


def resume(request: Request) -> None:
    """Continue an ended run, if nothing happened since home looked (seq)."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    plan = read_json(folder.plan)
    if plan is None:
        raise Refused("run.absent", "this box knows no run %s" % folder.run)
    with JobTurn(folder, request.args), StartLock(folder):
        fence.require_open(folder, request.args)
        seen = observe(folder)
        if seen["terminal"] and seen["caretaker_alive"]:  # it has written its last event and is about to leave
            _let_leave(folder)
            seen = observe(folder)
        untouched = seen["seq"] == request.args.get("seq") and not seen["caretaker_alive"]
        if seen["state"] in (FAILED, STOPPED) and untouched:
            ownership.hold_again(folder, request.args)
            fence.keep_claim(folder, request.args)
            _prepare_cells(folder, plan)
            _forget_stop(folder)
            place = _keep_private(request, folder, request.args.get("environment"))
            _keep_budget(request, folder)
            _keep_handbook(request, folder)
            _keep_promises(folder, request.args.get("patterns"))
            relaunch = _keep_relaunch(request, folder)
            kept = roster.leave_alone(folder, request.args.get("given_up"))
            _revive(folder, plan, seen["seq"], str(request.args.get("home", "someone")))
            request.reply(dict(observe(folder), did="resumed", kept=kept, relaunch=relaunch, **place))
            return
        request.reply(dict(seen, did="attached"))


def hush(request: Request) -> None:
    """Stop the reminders about a run: its results are home and its lease is being given up."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    with StartLock(folder):
        ownership.require(folder, request.args)
        write_atomic(folder.hush, b"")
        _drop_relaunch(folder)
    request.reply({"hushed": folder.run})


def stop(request: Request) -> None:
    """Leave a stop request and wake the caretaker, reviving it if it died."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    plan = read_json(folder.plan)
    if plan is None:
        raise Refused("run.absent", "this box knows no run %s" % folder.run)
    with StartLock(folder):
        ownership.require(folder, request.args)
        seen = observe(folder)
        if seen["terminal"]:  # the run has ended; what it may have left behind has not
            ended = end_processes(0, "", folder.mark(), float(request.args.get("grace_s", 5)))
            request.reply(dict(seen, did="nothing", leftovers=ended))
            return
        wish: Dict[str, Any] = {key: request.args[key] for key in ("id", "by", "grace_s") if key in request.args}
        request_stop(folder, wish)
        if slurm.is_slurm(plan):
            slurm.stop(folder, wish)
            request.reply(dict(observe(folder), did="asked"))
            return
        woken = wake(folder)
        who = caretaker_identity(folder)
        if who is None or not poke(int(who[0]), who[1]):
            _revive(folder, plan, seen["seq"])
        request.reply(dict(observe(folder), did="asked", woken=woken))


def _forget_stop(folder: RunFolder) -> None:
    """Remove an old stop request: a cell that never ran has not seen it yet."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder.stop)


def take_over(request: Request) -> None:
    """Let another home hold the run, with its own channels and handbook, if it is still as that home saw it."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    if not os.path.exists(folder.plan):
        raise Refused("run.absent", "this box knows no run %s" % folder.run)
    with StartLock(folder):
        ownership.take_over(folder, request.args)
        _keep_private(request, folder, None)
        _keep_handbook(request, folder)
        request.reply(observe(folder))


def _let_leave(folder: RunFolder) -> None:
    fd = wait_lock(folder.caretaker_lock, _LEAVE_WAIT_S)
    if fd is not None:
        os.close(fd)


class StartLock:
    """Lets only one starter at a time look and act."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        fd = wait_lock(self._folder.start_lock, _START_LOCK_WAIT_S)
        if fd is None:
            raise Refused("run.busy", "another command has been starting %s for 30 s" % self._folder.run)
        self._fd = fd
        try:
            refuse_newer(self._folder)
        except Refused:
            os.close(fd)
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _require_adoptable(plan: Dict[str, Any]) -> None:
    """Refuse to adopt a process that is gone, is another one by now, or does not belong to our user."""
    from leasehold.caretaker.attempt.find_adoptable import identity

    adopted = plan["adopted"]
    entry = identity(int(adopted.get("pid") or 0))
    if entry is None or entry.started != adopted.get("started") or entry.user_id != os.getuid():
        raise Refused("adopt.gone", "process %s is gone, or is not yours" % adopted.get("pid"))


def _open_folder(request: Request, folder: RunFolder, plan: Dict[str, Any]) -> bool:
    """Write the immutable plan once; return whether this call did."""
    existing = read_json(folder.plan)
    if existing is None and plan.get("adopted"):
        _require_adoptable(plan)
    if existing is not None and _work(existing) != _work(plan):
        raise Refused("run.plan_differs", "run %s is on this box with another plan" % folder.run)
    _prepare_cells(folder, dict(plan, tree=(existing or plan).get("tree")))
    if existing is not None:
        roster.add_cells(folder, plan, lambda: ownership.require(folder, request.args))
        return False
    body = {key: value for key, value in plan.items() if key != "plan_sha256"}
    if digest(body) != plan.get("plan_sha256"):
        raise Refused("run.plan_damaged", "the plan does not have the hash it claims")
    if not ownership.claim(folder, request.args):
        ownership.require(folder, request.args)
    write_json(folder.plan, plan)
    if request.args.get("note_root"):
        note_root(folder.root)
    return True


def _keep_private(request: Request, folder: RunFolder, platform: Any) -> Dict[str, Any]:
    """Write secret values and notice channels where only this user can read them; they came by wire, not by argv.

    The platform facts from home come first: they name the tier on which secrets may lie. Home's wishes for the gate
    after set-up are kept too: nobody at home may be there to ask when it is due. Returns where they lie on a cluster.
    """
    before = (folder.secrets, folder.notify)
    said: Dict[str, Any] = {}
    if isinstance(platform, dict) and slurm.is_slurm(read_json(folder.plan) or {}) and _is_private(request):
        from leasehold.caretaker.run.secrets_folder import settle  # only for clusters

        platform, place = settle(folder.root, os.path.expanduser("~"), platform)
        said["private_place"] = dict(place.as_dict(), path=place.path or os.path.join(folder.root, "secrets"))
    if isinstance(platform, dict) and platform != folder.platform():
        write_json(folder.environment, platform)
    for path in set(before) - {folder.secrets, folder.notify}:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if isinstance(request.args.get("gate"), dict):
        write_json(folder.gate, request.args["gate"])
    for name, path in (("secrets", folder.secrets), ("notify", folder.notify)):
        values = request.args.get(name)
        if not isinstance(values, dict) or not values:
            continue
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.chmod(os.path.dirname(path), 0o700)
        write_atomic(path, json.dumps(values).encode("utf-8"), mode=0o600)
    if os.path.exists(folder.hush):
        os.unlink(folder.hush)
    return said


def _is_private(request: Request) -> bool:
    return any(request.args.get(name) for name in ("secrets", "notify"))


def _keep_budget(request: Request, folder: RunFolder) -> None:
    """Write down what the run may cost, dated by this box's clock; an empty budget removes an earlier one."""
    value = request.args.get("budget")
    if isinstance(value, dict) and value:
        write_json(folder.budget, dict(value, as_of_unix=round(time.time(), 3)))
    elif isinstance(value, dict) and os.path.exists(folder.budget):
        os.unlink(folder.budget)


def _keep_handbook(request: Request, folder: RunFolder) -> None:
    """Write down home's facts for the handbook; they are not part of the plan, since two homes may differ in them."""
    if isinstance(request.args.get("handbook"), dict):
        write_json(folder.handbook_facts, request.args["handbook"])


def _keep_promises(folder: RunFolder, patterns: Any) -> None:
    """Write down what must exist at the end, where a person has changed it since the plan was made."""
    planned = (read_json(folder.plan) or {}).get("patterns")
    kept = (read_json(folder.promises) or {}).get("patterns", planned)
    if isinstance(patterns, list) and patterns and patterns != kept:
        write_json(folder.promises, {"patterns": [str(pattern) for pattern in patterns]})


def _keep_relaunch(request: Request, folder: RunFolder) -> Dict[str, Any]:
    """Install the resume hook for restarts of the box, where a person allowed it; remove it where not."""
    ways = request.args.get("relaunch")
    if not isinstance(ways, list) or not (ways or os.path.exists(folder.relaunch)):
        return {}
    from leasehold.caretaker.reboot.resume_hook import keep  # only for this

    return keep(folder, [str(way) for way in ways])


def _drop_relaunch(folder: RunFolder) -> None:
    if os.path.exists(folder.relaunch):
        from leasehold.caretaker.reboot.resume_hook import remove

        remove(folder)


def revive_run(folder: RunFolder, plan: Dict[str, Any]) -> None:
    """Start a caretaker for a run that has none; leave a live one alone."""
    with StartLock(folder):
        seen = observe(folder)
        if not seen["terminal"] and not seen["caretaker_alive"]:
            _revive(folder, plan, seen["seq"])


def _work(plan: Dict[str, Any]) -> Dict[str, Any]:
    """Return what is executed; promises and policies may differ between two homes that mean the same run."""
    job = plan.get("job", {})
    names = ("setup", "run", "env", "secrets")
    cells = "a sweep" if job.get("cells") else plan.get("cells")  # a sweep may grow
    what = {"tree": plan.get("code") or plan.get("tree"), "cells": cells, **{name: job.get(name) for name in names}}
    what["downloads"] = job.get("downloads") or []
    what["setup_frameworks"] = job.get("setup_frameworks", "keep")
    return what


def _prepare_cells(folder: RunFolder, plan: Dict[str, Any]) -> None:
    """Give each cell an out folder and its own, writable copy of the code."""
    if slurm.is_slurm(plan):  # each task makes its own, on the node where it runs
        return
    for cell in plan["cells"]:
        prepare_cell(folder, plan, cell)


def _revive(folder: RunFolder, plan: Dict[str, Any], seen_seq: int, resume_by: str = "") -> None:
    """Start a detached caretaker and wait until it, or one that a keeper started meanwhile, has taken over."""
    if slurm.is_slurm(plan):
        slurm.begin(folder, folder.read_plan() or plan, resume_by)
        with contextlib.suppress(OSError):  # its tasks write one of their own only where they live long
            write_handbook(folder, plan, fold(journal.read_from(folder.journal, 0)[0]))
        return

    def argv(primitive: str) -> Any:
        return own_argv("care", folder.path, primitive, resume_by)

    def ready() -> bool:
        return fold(journal.read_from(folder.journal, 0)[0]).seq > seen_seq

    used, tried = detach.launch(plan["detach"], argv, folder.path, ready)
    if not used:
        _drop_relaunch(folder)
        raise Refused("box.detach_failed", "the caretaker could not be detached: %s" % "; ".join(tried))
