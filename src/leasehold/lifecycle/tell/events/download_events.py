"""What the box's journal says of downloads, hooks and links, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.kit.text.safe_text import one_line
from leasehold.model.values.units import say_bytes


def _started(event: dict[str, Any]) -> str:
    total = say_bytes(_count(event, "total")) if event.get("total") else "size unknown"
    kept = f", {say_bytes(_count(event, 'have'))} already here" if event.get("have") else ""
    return f"fetching {_what(event)}: {_files(event)}, {total}{kept}"


def _progress(event: dict[str, Any]) -> str:
    have, total = _count(event, "have"), _count(event, "total")
    share = f" of {say_bytes(total)} ({100 * have // total}%)" if total else ""
    return f"fetching {event.get('to')}: {say_bytes(have)}{share}, {_rate(event)}"


def _route(event: dict[str, Any]) -> str:
    seen = [one for one in event.get("routes") or [] if isinstance(one, dict)]
    each = ", ".join(f"{one.get('route')} ({one.get('via')}) {one.get('problem') or _rate(one)}" for one in seen)
    return f"speed by route: {each}" + (f"; using {event.get('used')}" if len(seen) > 1 else "")


def _done(event: dict[str, Any]) -> str:
    commit = f", version {str(event['commit'])[:12]}" if event.get("commit") else ""
    size = say_bytes(_count(event, "bytes"))
    return f"fetched {event.get('to')}: {_files(event)}, {size}, {_rate(event)}{commit}"


def _failed(event: dict[str, Any]) -> str:
    return f"{_what(event)} could not be fetched ({event.get('tries')} tries): {event.get('error')}"


def _retry(event: dict[str, Any]) -> str:
    return f"fetching {event.get('file')}: try {event.get('tries')} ended: {event.get('error')}; going on"


def _files(event: dict[str, Any]) -> str:
    count = _count(event, "files")
    return f"{count} file" + ("" if count == 1 else "s")


def _what(event: dict[str, Any]) -> str:
    return f"{' or '.join(str(source) for source in event.get('from') or [])} to {event.get('to')}"


def _rate(event: dict[str, Any]) -> str:
    return f"{say_bytes(_count(event, 'bytes_per_s'))}/s"


def _count(event: dict[str, Any], key: str) -> int:
    """The box's figures are not trusted to be figures."""
    value = event.get(key)
    return value if isinstance(value, int) and value >= 0 else 0


def _tensorboard(event: dict[str, Any]) -> str:
    return f"TensorBoard: {event.get('link')}" + (f": {event['problem']}" if event.get("problem") else "")


def _hook(event: dict[str, Any]) -> str:
    lines = event.get("lines")
    said = f" ({lines[-1]})" if isinstance(lines, list) and lines else ""
    return f"the platform's hook failed with exit code {event.get('code')}: {event.get('hook')}{said}"


def _safe(teller: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    return lambda event: one_line(teller(event))


_TELLERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "download_started": _started,
    "download_progress": _progress,
    "download_route": _route,
    "download_done": _done,
    "download_failed": _failed,
    "download_retry": _retry,
    "download_found": lambda event: f"{event.get('to')} was fetched before",
    "downloads_found": lambda event: f"all {event.get('items')} downloads were fetched before",
    "downloads_ready": lambda event: "every download is there and checked",
    "download_waiting": lambda event: f"waiting: another run fetches {event.get('to')}",
    "hook_failed": _hook,
    "tensorboard_linked": _tensorboard,
    "download_worker_lost": lambda event: "the download process died; it goes on where it was",
}
FETCH_TELLERS = {kind: _safe(teller) for kind, teller in _TELLERS.items()}
