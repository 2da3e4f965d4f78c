"""The landlords with an API that this version knows: how each is opened, and where a person gets its key."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from leasehold.errors import UserError
from leasehold.platforms.landlords.http import Door
from leasehold.platforms.landlords.keys import Key
from leasehold.platforms.landlords.market import Market


@dataclass(frozen=True)
class Vendor:
    """One landlord's entry."""

    name: str  # also the platform that its boxes are
    title: str
    base: str
    variables: tuple[str, ...]  # environment variables that may hold the key
    key_page: str
    adapter: str  # module:class
    url_variable: str  # replaces the base address: a test server, or a proxy of your own
    auth: str = "Bearer {key}"


@dataclass(frozen=True)
class Patience:
    """How long a caller waits for a landlord."""

    timeout_s: float = 20.0
    tries: int = 3
    pauses_s: float = 20.0
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


VENDORS: tuple[Vendor, ...] = (
    Vendor(
        "runpod",
        "RunPod",
        "https://api.runpod.io",
        ("RUNPOD_API_KEY",),
        "https://console.runpod.io/user/settings",
        "leasehold.platforms.landlords.runpod:RunPod",
        "LEASEHOLD_RUNPOD_URL",
    ),
    Vendor(
        "vastai",
        "vast.ai",
        "https://console.vast.ai",
        ("VAST_API_KEY", "VASTAI_API_KEY"),
        "https://cloud.vast.ai/manage-keys/",
        "leasehold.platforms.landlords.vastai:VastAi",
        "LEASEHOLD_VASTAI_URL",
    ),
    Vendor(
        "lambda",
        "Lambda",
        "https://cloud.lambda.ai/api/v1",
        ("LAMBDA_API_KEY",),
        "https://cloud.lambda.ai/api-keys/cloud-api",
        "leasehold.platforms.landlords.lambdalabs:LambdaLabs",
        "LEASEHOLD_LAMBDA_URL",
    ),
    Vendor(
        "paperspace",
        "Paperspace",
        "https://api.paperspace.com/v1",
        ("PAPERSPACE_API_KEY",),
        "https://console.paperspace.com (team settings, API keys)",
        "leasehold.platforms.landlords.paperspace:Paperspace",
        "LEASEHOLD_PAPERSPACE_URL",
    ),
    Vendor(
        "autodl-pro",
        "AutoDL Pro",
        "https://api.autodl.com",
        ("AUTODL_TOKEN",),
        "https://www.autodl.com/console/account (developer token)",
        "leasehold.platforms.landlords.autodl:AutoDl",
        "LEASEHOLD_AUTODL_PRO_URL",
        auth="{key}",
    ),
)


def vendor(name: str) -> Vendor:
    """Return the entry of this name."""
    for entry in VENDORS:
        if entry.name == name:
            return entry
    raise UserError(
        "landlord.unknown",
        f"{name!r} is not a landlord with an API",
        hint="known: " + ", ".join(entry.name for entry in VENDORS),
    )


def open_market(name: str, key: Key, environ: Mapping[str, str], patience: Patience | None = None) -> Market:
    """Open a landlord with this key."""
    entry, wait = vendor(name), patience or Patience()
    door = Door(
        entry.title,
        environ.get(entry.url_variable) or entry.base,
        {"Authorization": entry.auth.format(key=key.value)},
        clock=wait.clock,
        sleep=wait.sleep,
        timeout_s=wait.timeout_s,
        tries=wait.tries,
        patience_s=wait.pauses_s,
    )
    module, _, name = entry.adapter.partition(":")
    adapter = getattr(importlib.import_module(module), name)
    return cast("Market", adapter(door, key.mark))
