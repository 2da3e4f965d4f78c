"""What was seen in a project, each thing with the file and line it was seen at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a flag seems to be for."""

    OUTPUT = "output folder"
    STEPS = "steps"
    EPOCHS = "epochs"
    LIMIT = "part of the data"
    EVAL_LIMIT = "part of an evaluation"
    INTERVAL = "how often it saves or evaluates"
    LOGGING = "how often it logs"
    COMPILE = "compiling"
    BATCH = "batch size"
    WORKERS = "loader workers"
    DEVICE = "device"
    RESUME = "resume"
    SEED = "seed"
    DATA = "data"
    CONFIG = "config file"
    OTHER = "other"


class Style(Enum):
    """How a flag is spelled on the command line."""

    OPTION = "--name value"
    JOINED = "--name=value"
    SWITCH = "--name"
    OVERRIDE = "name=value"
    POSITION = "value"


class Kind(Enum):
    """What a written file seems to be."""

    CHECKPOINT = "checkpoint"
    METRICS = "metrics"
    COPY = "a copy of another file"
    OTHER = "other"


class Base(Enum):
    """Below what a file is written."""

    OUT = "$LEASE_OUT"
    FLAG = "an output flag"
    HERE = "the working folder"
    ELSEWHERE = "a fixed place outside the project"
    UNKNOWN = "a folder that could not be read from the code"


@dataclass(frozen=True)
class Where:
    """A place in the project."""

    path: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class Sign:
    """A word that was seen, and what it stands for."""

    word: str
    where: Where
    note: str = ""


@dataclass(frozen=True)
class Flag:
    """Something that the command line can set."""

    name: str
    role: Role
    where: Where
    style: Style = Style.OPTION
    default: str = ""
    required: bool = False

    @property
    def attribute(self) -> str:
        """The name it has in the code."""
        return self.name.lstrip("-").rpartition(".")[2].replace("-", "_").lower()

    def spelled(self, value: str) -> str:
        """Write it with a value that is already quoted for the shell."""
        match self.style:
            case Style.SWITCH:
                return self.name
            case Style.OPTION:
                return f"{self.name} {value}"
            case Style.JOINED | Style.OVERRIDE:
                return f"{self.name}={value}"
            case Style.POSITION:
                return value


@dataclass(frozen=True)
class Output:
    """A file that the code writes: its pattern below the base, and how it would load."""

    pattern: str
    loads: str
    kind: Kind
    base: Base
    where: Where
    call: str
    flag: str = ""
    keys: tuple[str, ...] = ()
    opaque: bool = False
    needs: tuple[str, ...] = ()
    moved: bool = False  # it comes to its name by a rename: a link there would be replaced


@dataclass(frozen=True)
class Entry:
    """A file that could be what trains, the command that starts it, and why it was thought of."""

    path: str
    command: str
    score: int
    why: str
    where: Where


@dataclass(frozen=True)
class ProjectFacts:
    """All that a look at a project found; nothing of the project was executed."""

    name: str
    entries: tuple[Entry, ...] = ()
    related: tuple[str, ...] = ()
    frameworks: tuple[Sign, ...] = ()
    requirements: tuple[Sign, ...] = ()
    flags: tuple[Flag, ...] = ()
    outputs: tuple[Output, ...] = ()
    lease_out: tuple[Sign, ...] = ()
    resumes: tuple[Sign, ...] = ()
    resume_words: tuple[Sign, ...] = ()  # a setting that the code compares with a word such as resume
    resume_reads: tuple[Sign, ...] = ()  # settings of that kind that the code reads
    load_modes: tuple[Sign, ...] = ()  # where the code tells torch.load which objects it may make
    trainers: tuple[Sign, ...] = ()  # frameworks whose trainer has an adapter of ours
    trackers: tuple[Sign, ...] = ()
    secrets: tuple[Sign, ...] = ()
    data: tuple[Sign, ...] = ()
    log_pauses: tuple[Sign, ...] = ()  # how often the code logs, where no flag says so
    notebooks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unread: tuple[Sign, ...] = ()
    files_seen: int = 0
    truncated: bool = False

    @property
    def entry(self) -> Entry | None:
        """The likeliest thing to run."""
        return self.entries[0] if self.entries else None
