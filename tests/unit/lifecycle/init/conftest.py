"""What the init tests share: a project made of files, and the job that comes of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from leasehold.lifecycle.init.convert.convert import Conversion, convert
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.text.project_facts import ProjectFacts
from leasehold.lifecycle.init.write.write import write_job
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import Job

Files = Mapping[str, str | bytes]


@pytest.fixture
def project(tmp_path: Path) -> Callable[[Files], Path]:
    """Lay out files below a folder called resnet-cifar."""

    def make(files: Files) -> Path:
        folder = tmp_path / "resnet-cifar"
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).lstrip("\n").encode())
        return folder

    return make


@pytest.fixture
def started(project: Callable[[Files], Path]) -> Callable[[Files], tuple[ProjectFacts, str, Job]]:
    """Look at a project made of files, write its job file, and parse it."""

    def start(files: Files) -> tuple[ProjectFacts, str, Job]:
        facts = look_at(project(files))
        text = write_job(facts)
        return facts, text, parse_text(text, "lease.yaml")

    return start


@pytest.fixture
def carried(tmp_path: Path) -> Callable[[str, str], tuple[Conversion, Job]]:
    """Carry a file over and parse the job that comes of it."""

    def carry(name: str, text: str) -> tuple[Conversion, Job]:
        path = tmp_path / name
        path.write_bytes(text.lstrip("\n").encode())
        conversion = convert(path)
        return conversion, parse_text(conversion.text, "lease.yaml")

    return carry
