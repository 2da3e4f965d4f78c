"""Open the first connection of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.preflight.gatekeeper import Gatekeeper
from leasehold.model.run.note import Note, Report

from .cluster import PodWish, open_on_cluster

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


def open_box(home: Home, box: Box, wish: PodWish, report: Report) -> Engine:
    """Connect to the box; on a cluster, once the run's pod is up."""
    gatekeeper = Gatekeeper(home.ledger, report, run=wish.plan.run, skips=wish.skips)
    return open_on_cluster(home, box, wish, gatekeeper) or connect(home, box, report)


def connect(home: Home, box: Box, report: Report) -> Engine:
    """Open one connection, and report the host key of a box that was never met."""
    first_contact = getattr(box.transport, "pinned", True) is False
    engine = box.connect()
    fingerprint = box.transport.fingerprint() if first_contact and hasattr(box.transport, "fingerprint") else ""
    if fingerprint:
        home.ledger.append("host_pinned", box=box.name, fingerprint=fingerprint)
        report(
            Note(
                "host_pinned",
                f"first contact with {box.name}: host key {fingerprint} pinned",
                {"fingerprint": fingerprint},
            )
        )
    return engine
