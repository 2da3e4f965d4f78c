"""Read `publish:` of a job file: the bucket that finished results are copied to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.objects.address import KEY_NAMES, BadAddress, parse_address

_HINT = "for example: publish: s3://my-bucket/results"
Bad = Callable[[str, str, str], UserError]


def parse_publish(job: Mapping[str, Any], bad: Bad) -> str:
    """Check the address, and that the job names the keys for it as secrets."""
    value = job.get("publish", "")
    if value == "":
        return ""
    try:
        address = str(parse_address(value if isinstance(value, str) else repr(value)))
    except BadAddress as error:
        raise bad("publish", str(error), _HINT) from None
    secrets, env = job.get("secrets") or [], job.get("env") or {}
    missing = [name for name in KEY_NAMES if name not in secrets and name not in env]
    if missing:
        hint = f"secrets: [{', '.join(KEY_NAMES)}, AWS_ENDPOINT_URL]"
        raise bad("publish", f"needs {missing[0]}, which the job does not name under secrets", hint)
    return address
