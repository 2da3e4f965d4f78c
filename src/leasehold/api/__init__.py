"""One function a verb: each returns data and reports what it does; shells only parse and render.

A verb's room is imported when the verb is called for, and stages inside the verbs: `lease status` must not pay for
ssh, yaml or transfer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasehold.api.boxes import (
        box_add,
        box_list,
        box_next,
        box_prune,
        box_reboot,
        box_reboot_allow,
        box_reboot_forbid,
        box_remove,
        box_show,
        box_tell,
        box_test,
    )
    from leasehold.api.checkpoints import cadence, ckpt_inspect
    from leasehold.api.doctor import DoctorOrder, diagnose, explain_id, lint, search
    from leasehold.api.ending import (
        down,
        down_plan,
        down_request,
        down_stopped,
        harmless,
        park,
        park_plan,
        park_revoke,
        park_standing,
        take_back_waiver,
        waive,
        waive_failed,
    )
    from leasehold.api.entering import execute, ssh
    from leasehold.api.front import (
        BoxWords,
        adopt,
        adoptable,
        attach,
        be_patient,
        check,
        close_home,
        convert,
        fill_in,
        handbook,
        init,
        left_home,
        nags,
        newest_event,
        reopened,
        tunnel,
        write_new,
    )
    from leasehold.api.hygiene import disk, disk_empty, disk_free, disk_picked, disk_undo, gpu, gpu_kill
    from leasehold.api.notifying import notify_add, notify_kinds, notify_list, notify_remove, notify_test
    from leasehold.api.planning import doubtful_facts, plan, plan_wishes, platform, platforms
    from leasehold.api.resuming import forget, resume
    from leasehold.api.running import (
        clock,
        closed_by_word,
        duration,
        fetch,
        leases,
        logs,
        meter,
        meter_of_run,
        meters,
        named,
        open_home,
        open_leases,
        pull,
        refresh,
        run,
        show,
        status,
        stop,
        verify,
        watch,
        watch_sweep,
    )
    from leasehold.api.seeing import patrol, plot
    from leasehold.api.signing import signer_add, signer_confirm, signer_list, signer_remove
    from leasehold.api.sweeps import (
        run_fleet,
        sweep_pace,
        sweep_plan,
        sweep_plot,
        sweep_spelled,
        sweep_standing,
        sweep_table,
    )
    from leasehold.lifecycle.records.orders import (
        BoxOrder,
        BoxWord,
        DiskOrder,
        DownOrder,
        Evacuation,
        RunOrder,
        RunOutcome,
    )
    from leasehold.lifecycle.run.adopt_process import AdoptOrder

__all__ = [
    "AdoptOrder",
    "BoxOrder",
    "BoxWord",
    "BoxWords",
    "DiskOrder",
    "DoctorOrder",
    "DownOrder",
    "Evacuation",
    "RunOrder",
    "RunOutcome",
    "adopt",
    "adoptable",
    "attach",
    "be_patient",
    "box_add",
    "box_list",
    "box_next",
    "box_prune",
    "box_reboot",
    "box_reboot_allow",
    "box_reboot_forbid",
    "box_remove",
    "box_show",
    "box_tell",
    "box_test",
    "cadence",
    "check",
    "ckpt_inspect",
    "clock",
    "close_home",
    "closed_by_word",
    "convert",
    "diagnose",
    "disk",
    "disk_empty",
    "disk_free",
    "disk_picked",
    "disk_undo",
    "down",
    "down_plan",
    "down_request",
    "doubtful_facts",
    "down_stopped",
    "duration",
    "execute",
    "explain_id",
    "fetch",
    "fill_in",
    "forget",
    "handbook",
    "harmless",
    "gpu",
    "gpu_kill",
    "init",
    "leases",
    "left_home",
    "lint",
    "logs",
    "meter",
    "meter_of_run",
    "meters",
    "nags",
    "named",
    "newest_event",
    "reopened",
    "notify_add",
    "notify_kinds",
    "notify_list",
    "notify_remove",
    "notify_test",
    "signer_add",
    "signer_confirm",
    "signer_list",
    "signer_remove",
    "open_home",
    "open_leases",
    "park",
    "park_plan",
    "park_revoke",
    "park_standing",
    "patrol",
    "plan",
    "plan_wishes",
    "platform",
    "platforms",
    "plot",
    "pull",
    "refresh",
    "resume",
    "run",
    "run_fleet",
    "search",
    "show",
    "ssh",
    "status",
    "stop",
    "sweep_pace",
    "sweep_plan",
    "sweep_plot",
    "sweep_spelled",
    "sweep_standing",
    "sweep_table",
    "take_back_waiver",
    "tunnel",
    "verify",
    "waive",
    "waive_failed",
    "watch",
    "watch_sweep",
    "write_new",
]

_ROOMS = (
    "leasehold.api.running",
    "leasehold.api.front",
    "leasehold.api.notifying",
    "leasehold.api.signing",
    "leasehold.lifecycle.records.orders",
    "leasehold.lifecycle.run.adopt_process",
    "leasehold.api.boxes",
    "leasehold.api.ending",
    "leasehold.api.planning",
    "leasehold.api.doctor",
    "leasehold.api.checkpoints",
    "leasehold.api.hygiene",
    "leasehold.api.entering",
    "leasehold.api.seeing",
    "leasehold.api.resuming",
    "leasehold.api.sweeps",
)


def __getattr__(name: str) -> Any:
    """Find a verb in the room that defines it, and keep it."""
    for room in _ROOMS if name in __all__ else ():
        found = getattr(import_module(room), name, None)
        if getattr(found, "__module__", "") == room:
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
