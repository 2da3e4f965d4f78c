"""One function a verb: each returns data and reports what it does; shells only parse and render.

Stages are imported inside the verbs: `lease status` must not pay for ssh, yaml or transfer.
"""

from leasehold.api.boxes import box_add, box_list, box_remove, box_show, box_test
from leasehold.api.ending import down, down_plan, down_request, down_stopped, waive
from leasehold.api.front import (
    attach,
    check,
    convert,
    init,
    nags,
    notify_add,
    notify_list,
    notify_remove,
    notify_test,
    tunnel,
    write_new,
)
from leasehold.api.planning import doubtful_facts, plan, plan_wishes, platform, platforms
from leasehold.api.running import (
    clock,
    duration,
    leases,
    logs,
    meter,
    open_home,
    pull,
    run,
    show,
    status,
    stop,
    verify,
    watch,
)
from leasehold.lifecycle.orders import BoxOrder, DownOrder, RunOrder, RunOutcome

__all__ = [
    "BoxOrder",
    "DownOrder",
    "RunOrder",
    "RunOutcome",
    "attach",
    "box_add",
    "box_list",
    "box_remove",
    "box_show",
    "box_test",
    "check",
    "clock",
    "convert",
    "down",
    "down_plan",
    "down_request",
    "doubtful_facts",
    "down_stopped",
    "duration",
    "init",
    "leases",
    "logs",
    "meter",
    "nags",
    "notify_add",
    "notify_list",
    "notify_remove",
    "notify_test",
    "open_home",
    "plan",
    "plan_wishes",
    "platform",
    "platforms",
    "pull",
    "run",
    "show",
    "status",
    "stop",
    "tunnel",
    "verify",
    "waive",
    "watch",
    "write_new",
]
