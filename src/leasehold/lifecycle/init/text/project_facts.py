"""The facts found in a project, each with its file and line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """The purpose of a flag."""

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
    """The spelling of a flag on the command line."""

    OPTION = "--name value"
    JOINED = "--name=value"
    SWITCH = "--name"
    OVERRIDE = "name=value"
    POSITION = "value"


class Kind(Enum):
    """The kind of a written file."""

    CHECKPOINT = "checkpoint"
    METRICS = "metrics"
    COPY = "a copy of another file"
    OTHER = "other"


class Base(Enum):
    """The base folder of a written file."""

    OUT = "$LEASE_OUT"
    FLAG = "an output flag"
    HERE = "the working folder"
    ELSEWHERE = "a fixed place outside the project"
    UNKNOWN = "a folder that could not be read from the code"


@dataclass(frozen=True)
class Where:
    """A file and line in the project."""

    path: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class Sign:
    """A word that was found, and its meaning."""

    word: str
    where: Where
    note: str = ""


@dataclass(frozen=True)
class Flag:
    """An option of the command line."""

    name: str
    role: Role
    where: Where
    style: Style = Style.OPTION
    default: str = ""
    required: bool = False

    @property
    def attribute(self) -> str:
        """Return its attribute name in the code."""
        return self.name.lstrip("-").rpartition(".")[2].replace("-", "_").lower()

    def spelled(self, value: str) -> str:
        """Format the flag with a value that is already quoted for the shell."""
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
    moved: bool = False  # a rename gives it its name, so a link there would be replaced


@dataclass(frozen=True)
class Entry:
    """A file that could be the training script, the command that starts it, and the reason."""

    path: str
    command: str
    score: int
    why: str
    where: Where


@dataclass(frozen=True)
class ProjectFacts:
    """Everything that the inspection of a project found; nothing of the project was executed."""

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
    resume_reads: tuple[Sign, ...] = ()  # settings about resuming that the code reads
    load_modes: tuple[Sign, ...] = ()  # where the code tells torch.load which objects it may create
    trainers: tuple[Sign, ...] = ()  # frameworks for whose trainer there is an adapter
    trackers: tuple[Sign, ...] = ()
    secrets: tuple[Sign, ...] = ()
    data: tuple[Sign, ...] = ()
    log_pauses: tuple[Sign, ...] = ()  # how often the code logs, where no flag sets it
    notebooks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unread: tuple[Sign, ...] = ()
    files_seen: int = 0
    truncated: bool = False

    @property
    def entry(self) -> Entry | None:
        """Return the most likely entry point."""
        return self.entries[0] if self.entries else None
