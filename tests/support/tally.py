"""Say at the end of a test session what repeated tests counted: record_property("tally: TITLE", WORD or {WORD: COUNT}).

Under xdist the controller must have this plugin registered, by a conftest that it loads itself.
"""

from __future__ import annotations

from typing import Any, Dict

PREFIX = "tally: "


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up what each test recorded of itself; reports carry it home from xdist's workers, too."""
    sums: Dict[str, Dict[str, int]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name.startswith(PREFIX) and report.when == "call":
                    words = value if isinstance(value, dict) else {str(value): 1}
                    counts = sums.setdefault(name[len(PREFIX) :], {})
                    for word, count in words.items():
                        counts[word] = counts.get(word, 0) + count
    for title, counts in sorted(sums.items()):
        said = ", ".join("%d %s" % (counts[word], word) for word in sorted(counts))
        terminalreporter.write_line("%s: %d cases, %s" % (title, sum(counts.values()), said))
