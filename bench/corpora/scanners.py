"""The ways to ask each tool of one file: a dict from view to (said, why), said being plain, code, refused or unread."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

Views = dict[str, tuple[str, str]]
Ask = Callable[[str], Views]

_PICKLED = (".bin", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib", ".metadata")


def leasehold() -> Ask:
    """As `lease ckpt inspect` asks, and as the check of results at home does."""
    confine = importlib.import_module("leasehold.lifecycle.confine.check_loads")
    kind_of = importlib.import_module("leasehold.kit.readers").guess_kind
    hiding = importlib.import_module("leasehold.gates.care.other_files").MAY_HIDE_CODE
    sys.executable = os.environ.get("LEASEHOLD_WATCHED", sys.executable)  # the confined processes are watched too

    def ask(path: str) -> Views:
        named = "tar" if path.endswith(".tar") else kind_of(path)  # as a job says it
        guessed = "checkpoint" if os.path.isdir(path) else named
        kinds = [kind for kind in dict.fromkeys((guessed, "checkpoint")) if kind != "bytes"]
        results = confine.check_loads([confine.LoadRequest(path, kind, allow_opaque=True) for kind in kinds])
        views: Views = {"bytes": ("unread", "")} if guessed == "bytes" else {}
        for kind, result in zip(kinds, results, strict=True):
            if not result.ok:
                views[kind] = ("refused", result.reason)
            elif result.reading["opaque"]:
                views[kind] = ("code", ", ".join(result.reading["opaque"][:3]))
            elif kind in hiding:
                views[kind] = ("unread", f"not looked at: {hiding[kind]}")
            else:
                views[kind] = ("plain", "")
        return views

    return ask


def picklescan() -> Ask:
    """As its command does, which ends with 1 for a find and 2 for an error."""
    scanner = importlib.import_module("picklescan.scanner")

    def ask(path: str) -> Views:
        scan = scanner.scan_directory_path if os.path.isdir(path) else scanner.scan_file_path
        result = scan(path)
        if result.issues_count:
            return {"scan": ("refused", f"{result.issues_count} issues")}
        if result.scan_err:
            return {"scan": ("refused", "could not be scanned")}
        return {"scan": ("plain" if result.scanned_files else "unread", "")}

    return ask


def fickling() -> Ask:
    """As its command does for a zip and for other files that hold pickles."""
    loader = importlib.import_module("fickling.loader")

    def ask(path: str) -> Views:
        target = os.path.join(path, ".metadata") if os.path.isdir(path) else path
        if not os.path.exists(target):
            return {"scan": ("unread", "")}
        with open(target, "rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"
        if zipped:
            results = list(loader.scan_zip_archive(target, graceful=True).values())
        elif target.endswith(_PICKLED):
            results = [loader.scan_file(target, graceful=True)]
        else:
            results = []
        if not results:
            return {"scan": ("unread", "")}
        bad = [result for result in results if not result]
        why = f"{bad[0].severity.name} {'; '.join(bad[0].errors[:1])}" if bad else ""
        return {"scan": ("refused" if bad else "plain", why)}

    return ask


def modelscan() -> Ask:
    """As its command does, which ends with 1 for a find, 2 for an error and 3 where it has no scanner."""
    scanner = importlib.import_module("modelscan.modelscan").ModelScan()

    def ask(path: str) -> Views:
        report = scanner.scan(path)
        if report["summary"]["total_issues"]:
            return {"scan": ("refused", f"{report['summary']['total_issues']} issues")}
        if report["errors"]:
            return {"scan": ("refused", f"could not be scanned: {str(report['errors'][0])[:200]}")}
        return {"scan": ("plain" if report["summary"]["scanned"]["total_scanned"] else "unread", "")}

    return ask


def stock() -> Ask:
    """Not a scanner: what pickle, torch, NumPy and joblib themselves would do with it."""
    module = importlib.import_module("bench.corpora.stock")
    for name in ("torch", "numpy", "joblib"):
        importlib.import_module(name)

    def ask(path: str) -> Views:
        found: dict[str, str] = module.load_every_way(path)
        return {"truth": (module.truth_of(found), ""), **{way: (said, "") for way, said in found.items()}}

    return ask


TOOLS: dict[str, Callable[[], Ask]] = {
    "leasehold": leasehold,
    "picklescan": picklescan,
    "fickling": fickling,
    "modelscan": modelscan,
    "stock": stock,
}
