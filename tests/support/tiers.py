"""Two tiers of tests: `make test` runs the fast one (--tier fast), `make test-all` runs everything.

Full tier only: whatever is marked `full`, and every test under tests/real that is not marked `fast`.
After the fast tier two lines say which parts were missing here, and how to run everything.
"""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest

REAL = Path(__file__).resolve().parent.parent / "real"
DAY = "LEASEHOLD_TEST_DAY"  # set by the controller, so that workers which start around midnight agree
EVERYTHING = "make test-all"

# What a skip reason begins with -> the part that was missing. Other reasons are listed as they are.
_PART = re.compile(r"^(?:Skipped: )?no (?P<part>[\w.+-]+) here\b|^(?:Skipped: )?could not import '(?P<module>[\w.]+)'")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the tiers."""
    parser.addoption("--tier", choices=["fast", "all"], default="all", help="which tests to run (default: all)")


def pytest_configure(config: pytest.Config) -> None:
    """Fix the date that chooses the sample of the kill matrix."""
    os.environ.setdefault(DAY, str(datetime.datetime.now(datetime.timezone.utc).toordinal()))


def day() -> int:
    """Give the number of the day on which this test session began."""
    return int(os.environ[DAY])


def is_fast(item: pytest.Item) -> bool:
    """Tell whether a test belongs to the fast tier."""
    if item.get_closest_marker("full") is not None:
        return False
    return REAL not in Path(str(item.path)).parents or item.get_closest_marker("fast") is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leave out what is not of the tier that was asked for."""
    if config.getoption("--tier") == "fast":
        left_out = [item for item in items if not is_fast(item)]
        items[:] = [item for item in items if is_fast(item)]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say after the fast tier what was skipped, by part, and how to run everything."""
    if config.getoption("--tier") != "fast":
        return
    parts, others = skipped_by_part(terminalreporter.stats.get("skipped", []))
    for reason, count in sorted(others.items()):
        terminalreporter.write_line("skipped %d: %s" % (count, reason))
    missing = ", ".join("%s (%d)" % (part, parts[part]) for part in sorted(parts))
    terminalreporter.write_line("skipped for missing parts, with the number of tests: %s" % (missing or "none"))
    terminalreporter.write_line("this was the fast tier; everything: %s" % EVERYTHING)


def skipped_by_part(reports: List[Any]) -> Tuple[Dict[str, int], Dict[str, int]]:
    """Count skipped tests by the part they lack, and those skipped for another reason by that reason."""
    parts: Dict[str, int] = {}
    others: Dict[str, int] = {}
    for report in reports:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        part = _part_of(reason)
        into = others if part is None else parts
        key = reason.replace("Skipped: ", "", 1) if part is None else part
        into[key] = into.get(key, 0) + 1
    return parts, others


def _part_of(reason: str) -> Optional[str]:
    found = _PART.match(reason)
    return (found.group("part") or found.group("module")) if found else None
