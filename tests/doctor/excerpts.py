"""The corpus of real log excerpts: `=== URL | labels` and then the lines; `-` labels a healthy one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leasehold.doctor.diagnose import diagnose
from leasehold.doctor.finding import Diagnosis
from leasehold.doctor.reading import read_stream
from leasehold.kit.failure.catalogue import Book
from leasehold.kit.failure.evidence import Context

FOLDER = Path(__file__).parent / "corpus"
HALVES = ("tune", "report")


@dataclass(frozen=True)
class Excerpt:
    """A piece of a public log, where it stands, and which catalogue entries a person would name for it."""

    url: str
    labels: tuple[str, ...]
    text: str
    file: str

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong in it."""
        return self.labels == ("-",)

    @property
    def source(self) -> str:
        """Who published it: the halves share no source."""
        return self.url.split("/")[3]


def read(half: str) -> list[Excerpt]:
    """Read one half of the corpus."""
    found = []
    for path in sorted((FOLDER / half).glob("*.txt")):
        for block in ("\n" + path.read_text("utf-8")).split("\n=== ")[1:]:
            head, _, body = block.partition("\n")
            url, _, labels = head.rpartition(" | ")
            found.append(Excerpt(url, tuple(labels.split()), body.rstrip("\n") + "\n", path.name))
    return found


def diagnosed(book: Book, text: str, context: Context | None = None) -> Diagnosis:
    """Diagnose one text as a log."""
    return diagnose(book, [read_stream(book, "excerpt", iter([text.encode()]))], context or Context())


@dataclass(frozen=True)
class Score:
    """How a set of excerpts came out."""

    failures: int
    first: int
    among_three: int
    healthy: int
    alarms: int


def score(book: Book, excerpts: list[Excerpt]) -> Score:
    """Count how often the label comes first, or among the first three, and how often a healthy log alarms."""
    first = three = alarms = 0
    for excerpt in excerpts:
        named = [finding.id for finding in diagnosed(book, excerpt.text).findings]
        if excerpt.healthy:
            alarms += bool(named)
            continue
        first += bool(named) and named[0] in excerpt.labels
        three += bool(set(named[:3]) & set(excerpt.labels))
    healthy = sum(excerpt.healthy for excerpt in excerpts)
    return Score(len(excerpts) - healthy, first, three, healthy, alarms)
