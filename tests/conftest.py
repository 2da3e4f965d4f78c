"""Fixtures and rules every test can count on. Read by Debian's PyPy (3.9) too."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Callable, Generator, Iterator, List

import pytest

from tests.support import tally, tiers
from tests.support.autodl_bed import AutodlCloud
from tests.support.k8s_bed import missing_kubelet
from tests.support.object_stores import missing_object_stores
from tests.support.parts import (
    missing_container,
    missing_namespaces,
    missing_slurm,
    missing_slurm_books,
    missing_ssh,
)
from tests.support.slurm_bed import SlurmCluster
from tests.support.sshd import SshBox

# A shell that puts us in the background has Ctrl-C ignored, and our children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What a marker asks of the machine: None, or the reason why it cannot be had here.
NEEDS = {
    "real_ssh": missing_ssh,
    "namespaces": missing_namespaces,
    "containers": missing_container,
    "slurm": missing_slurm,
    "slurm_books": missing_slurm_books,
    "kubernetes": missing_kubelet,
    "object_stores": missing_object_stores,
}

# Under LEASEHOLD_NO_SKIP=1, which CI sets, a test with one of these markers runs or fails.
NEVER_SKIPPED_IN_CI = ("real_ssh", "namespaces", "containers", "slurm", "object_stores", "kill_matrix")

REAL = Path(__file__).resolve().parent / "real"

BED_FIXTURES = {
    "ssh_box": "real_ssh",
    "new_ssh_box": "real_ssh",
    "begin": "real_ssh",
    "autodl": "containers",
    "slurm": "slurm",
}

ODD_NAMES = {
    "spaces": " two  spaces ",
    "quotes": 'it\'s "quoted" `and` \\back',
    "newline": "line one\nline two",
    "unicode": "naïve-e\u0301-\u200d-🏠",
    "chinese": "训练 结果",
    "shell": "$HOME;$(id)&|*?[a]{b,c}~!#",
    "dash": "-rf",
}


@pytest.fixture(params=list(ODD_NAMES.values()), ids=list(ODD_NAMES))
def odd_name(request: pytest.FixtureRequest) -> str:
    """Name a file or folder the way users do and shells do not expect."""
    return str(request.param)


@pytest.fixture
def ssh_box(tmp_path: Path) -> Iterator[SshBox]:
    """Give a box behind a real sshd; everything on it dies with the test."""
    with SshBox(tmp_path / "box") as box:
        yield box


@pytest.fixture
def new_ssh_box(tmp_path: Path) -> Iterator[Callable[..., SshBox]]:
    """Give a function that makes boxes: new_ssh_box(name, home=..., environment=...)."""
    with contextlib.ExitStack() as boxes:

        def make(name: str = "box", **options: object) -> SshBox:
            return boxes.enter_context(SshBox(tmp_path / name, **options))  # type: ignore[arg-type]

        yield make


@pytest.fixture
def autodl(tmp_path: Path) -> Iterator[AutodlCloud]:
    """Give a simulated AutoDL to rent boxes from; everything ends with the test."""
    with AutodlCloud(tmp_path / "autodl") as cloud:
        yield cloud


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    """Give a real Slurm cluster of four nodes; everything ends with the test."""
    with SlurmCluster(tmp_path / "slurm") as cluster:
        yield cluster


def pytest_configure(config: pytest.Config) -> None:
    """Let the controller print the counts: under xdist it loads no other conftest."""
    if not config.pluginmanager.is_registered(tally):
        config.pluginmanager.register(tally)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Offer the tiers, with all that belongs to them."""
    pluginmanager.register(tiers)


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Mark every test that uses a bed with what the bed needs, so that nobody can forget to."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in BED_FIXTURES:
                item.add_marker(BED_FIXTURES[fixture])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, what this machine cannot run."""
    for marker, missing in NEEDS.items():
        if item.get_closest_marker(marker) is not None:
            reason = missing()
            if reason is not None:
                pytest.skip(reason)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, object, None]:
    """Turn a skip into a failure where skipping is not allowed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and not hasattr(report, "wasxfail") and _must_run(item):
        report.outcome = "failed"
        report.longrepr = "skipped under LEASEHOLD_NO_SKIP=1: %s" % _skip_reason(report.longrepr)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, None]:
    """The same for a whole module under tests/real that skips itself while it is imported."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and _no_skip() and REAL in Path(str(collector.path)).parents:
        report.outcome = "failed"
        report.longrepr = "skipped under LEASEHOLD_NO_SKIP=1: %s" % _skip_reason(report.longrepr)


def _must_run(item: pytest.Item) -> bool:
    return _no_skip() and any(item.get_closest_marker(name) is not None for name in NEVER_SKIPPED_IN_CI)


def _no_skip() -> bool:
    return os.environ.get("LEASEHOLD_NO_SKIP") == "1"


def _skip_reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) and len(longrepr) == 3 else str(longrepr)
