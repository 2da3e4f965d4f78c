"""Verify: roster exact both ways, hashes equal, every artifact loads; only then is a receipt written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import HomeError, VerifyError
from leasehold.kit.files import manifest as manifests
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.file_layouts import NewerLayout
from leasehold.kit.files.globbing import compile_pattern, walk
from leasehold.kit.files.paths import join_checked
from leasehold.kit.files.sha256 import hash_file
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.confine.check_loads import LoadResult, check_loads, load_request
from leasehold.lifecycle.home.result_names import notes_of_names
from leasehold.lifecycle.records.boxes_of_run import stays_of
from leasehold.lifecycle.records.published import note_of, published_facts
from leasehold.model.job.job import Artifact
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan
from leasehold.model.run.receipt import Receipt, receipt_from_dict
from leasehold.model.run.unread_files import reason as reason_unread
from leasehold.model.run.unread_files import summary as summary_unread

from . import nonfinite
from .run_json import run_facts

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen

_WALL_S = 3600.0
_NONE: Mapping[str, str] = {}


def write_receipt(
    place: Path, plan: Plan, manifest: dict[str, Any], data: bytes, seen: RunSeen, report: Report, *,
    proved: Mapping[str, str] = _NONE, names: Mapping[str, str] = _NONE, box: str = "",
) -> Receipt:  # fmt: skip
    """Check a pulled run in place and write receipt.json and run.json beside it.

    proved: hashes computed of the home copy while it came, by cell/path; those files are not read again.
    names: files that have another name here than on the box, as cell/path.
    """
    _check_roster(place, manifest, names)
    _check_hashes(place, manifest, names, proved)
    count = int(manifest["totals"]["files"])
    report(Note("hashes_equal", f"hashes equal: {count} {'file' if count == 1 else 'files'}"))
    results = _check_loads(place, plan, manifest, names)
    report(Note("loads", _loads_words(results)))
    found = nonfinite.facts_of(place / "cells", results)
    receipt = Receipt(
        run=plan.run,
        plan_sha256=plan.sha256,
        manifest_sha256=sha256(data).hexdigest(),
        cells=tuple(sorted(manifest["cells"])),
        files=int(manifest["totals"]["files"]),
        bytes=sum(entry["bytes"] for entries in manifest["cells"].values() for entry in entries),
        loads=tuple(_load_fact(place, result) for result in results),
        opaque=tuple(sorted({name for result in results for name in _opaque(result)})),
        confinement=tuple(results[0].confinement) if results else (),
        verified_unix=int(time.time()),
        nonfinite=found,
        home_names=names,
        published=published_facts(seen, manifest),
        stays=stays_of(seen, box),
    )
    for note in (*nonfinite.notes_of(found), *notes_of_names(names), *note_of(receipt)):
        report(note)
    write_json(str(place / "run.json"), run_facts(plan, seen, receipt, place))
    write_json(str(place / "receipt.json"), receipt.as_dict())
    return receipt


def read_receipt(export: Path) -> Receipt | None:
    """Return the receipt beside an export, or None if there is no valid one."""
    value = read_json(str(export / "receipt.json"))
    try:
        return receipt_from_dict(value) if value else None
    except NewerLayout as error:
        raise HomeError("layout.newer", f"{export / 'receipt.json'}: {error}") from None
    except (KeyError, TypeError, ValueError):
        return None


def home_damage(export: Path, receipt: Receipt) -> tuple[str, ...]:
    """Read the home copy again; list what is missing or differs from what the receipt covers."""
    try:
        data = (export / "manifest.json").read_bytes()
    except OSError:
        return (f"the copy at home is gone: {export}",)
    if sha256(data).hexdigest() != receipt.manifest_sha256:
        return (f"{export / 'manifest.json'} is not the one the receipt was written for",)
    try:
        manifest = manifests.parse(json.loads(data), receipt.run)
        _check_roster(export, manifest, receipt.home_names)
        _check_hashes(export, manifest, receipt.home_names)
    except (OSError, ValueError, manifests.ManifestError, VerifyError) as error:
        return (f"the copy at home no longer fits its receipt: {error}",)
    return ()


def sealed_entries(export: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the manifest's entries by cell, as kept at home; {} if there is no valid manifest."""
    try:
        value = read_json(str(export / "manifest.json")) or {}
        cells: dict[str, list[dict[str, Any]]] = manifests.parse(value, value.get("run", ""))["cells"]
    except (OSError, manifests.ManifestError):
        return {}
    return cells


def holds_all_of(newer: Path, older: Path) -> bool:
    """Return whether a newer export has every file of an older one, and the older one has no files added by others."""
    mine, before = _sums(newer), _sums(older)
    if not before or before.items() - mine.items():
        return False
    called, were = names_at(newer), names_at(older)
    ours = {"manifest.json", "receipt.json", "run.json", *(f"cells/{were.get(key, key)}" for key in before)}
    found = {item.path for item in walk(str(older)) if item.is_file}
    if any(path not in ours and not path.startswith("evidence/") for path in found):
        return False
    pairs = (
        (newer / "cells" / called.get(key, key), older / "cells" / were.get(key, key)) for key in before
    )  # fmt: skip
    return all(one.exists() and two.exists() and one.samefile(two) for one, two in pairs)  # else it may be damaged


def names_at(export: Path) -> Mapping[str, str]:
    """Return which files of an export have another name there than on the box, as cell/path."""
    receipt = read_receipt(export)
    return receipt.home_names if receipt else _NONE


def _sums(export: Path) -> dict[str, str]:
    entries = sealed_entries(export).items()
    return {f"{cell}/{entry['path']}": str(entry["sha256"]) for cell, found in entries for entry in found}


def _at_home(place: Path, cell: str, path: str, names: Mapping[str, str]) -> str:
    """Return the local path of a manifest's file."""
    key = f"{cell}/{path}"
    return join_checked(str(place / "cells"), names.get(key, key))


def _check_roster(place: Path, manifest: dict[str, Any], names: Mapping[str, str]) -> None:
    keys = [f"{cell}/{entry['path']}" for cell, entries in manifest["cells"].items() for entry in entries]
    promised = {names.get(key, key) for key in keys}
    if len(promised) != len(keys) or set(names) - set(keys):
        raise VerifyError("artifact.unexpected", "the names that the receipt gives the files here do not fit the files")
    root = place / "cells"
    found = {item.path: item for item in walk(str(root))} if root.is_dir() else {}
    missing, extra = sorted(promised - found.keys()), sorted(found.keys() - promised)
    if missing:
        raise VerifyError(
            "artifact.missing", f"{len(missing)} promised files are not home, first {one_line(missing[0])}"
        )
    if extra:
        raise VerifyError(
            "artifact.unexpected",
            f"{len(extra)} files nobody promised came along, first {one_line(extra[0])}",
        )
    for path, item in found.items():
        if not item.is_file:
            raise VerifyError("artifact.not_plain", f"{one_line(path)} is not a plain file")


def _check_hashes(
    place: Path, manifest: dict[str, Any], names: Mapping[str, str], proved: Mapping[str, str] = _NONE
) -> None:
    for cell, entries in manifest["cells"].items():
        for entry in entries:
            path = _at_home(place, cell, entry["path"], names)
            if os.path.getsize(path) != entry["bytes"]:
                raise VerifyError(
                    "artifact.size_differs",
                    f"{one_line(path)} has {os.path.getsize(path)} bytes, promised {entry['bytes']}",
                )
            if proved.get(f"{cell}/{entry['path']}") == entry["sha256"]:
                continue
            if hash_file(path) != entry["sha256"]:
                raise VerifyError(
                    "artifact.hash_differs", f"{one_line(path)} has another sha256 than the box's manifest"
                )


def _check_loads(place: Path, plan: Plan, manifest: dict[str, Any], names: Mapping[str, str]) -> list[LoadResult]:
    requests = []
    for cell, entries in manifest["cells"].items():
        for entry in entries:
            artifact = _promise(plan, entry["path"])
            path = _at_home(place, cell, entry["path"], names)
            requests.append(load_request(path, artifact))
    python = os.environ.get("LEASEHOLD_PYTHON") or None  # an interpreter with torch, for the second opinion
    results = check_loads(requests, python=python, wall_s=_WALL_S)
    bad = [result for result in results if not result.ok]
    if bad or len(results) != len(requests):
        first = f": {one_line(bad[0].path)}: {one_line(bad[0].reason)}" if bad else ""
        error = VerifyError(
            "artifact.does_not_load",
            f"{len(bad)} of {len(requests)} artifacts do not load{first}",
            hint="fix the promise in the job file and repeat lease run: it checks again, it does not retrain",
        )
        root = place / "cells"
        error.cells = tuple(dict.fromkeys(Path(result.path).relative_to(root).parts[0] for result in bad))
        raise error
    return results


def _promise(plan: Plan, path: str) -> Artifact:
    for artifact in plan.job.artifacts:
        if compile_pattern(artifact.pattern).match(path):
            return artifact
    raise VerifyError("artifact.unexpected", f"{one_line(path)} matches no promised artifact")


def _opaque(result: LoadResult) -> list[str]:
    named = result.reading.get("opaque", [])
    return [str(name) for name in named] if isinstance(named, list) else []


def _load_fact(place: Path, result: LoadResult) -> dict[str, Any]:
    notes = result.reading.get("notes")
    unread = {"not_read": reason_unread(result.path)} if result.reading.get("kind") == "bytes" else {}
    return {
        **unread,
        "path": os.path.relpath(result.path, place / "cells"),
        "kind": result.reading.get("kind", ""),
        "tensors": result.reading.get("tensors", 0),
        "numel": result.reading.get("numel", 0),
        "torch_load": result.torch_load,
        "numbers": nonfinite.word_of(result),
        **({"notes": notes} if notes else {}),
    }


def _loads_words(results: list[LoadResult]) -> str:
    """Describe what was loaded; files without a reader are hash-equal, and no more is known of them."""
    passed_over = summary_unread(result.path for result in results if result.reading.get("kind") == "bytes")
    if not passed_over:
        return f"every artifact loads: {_counted(results)}"
    read = _counted([result for result in results if result.reading.get("kind") != "bytes"])
    return f"{f'loads: {read}; ' if read else ''}hash-equal only: {passed_over}"


def _counted(results: list[LoadResult]) -> str:
    kinds: dict[str, int] = {}
    for result in results:
        kind = str(result.reading.get("kind", "?"))
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
