"""What the hand-written pages name exists: links, commands, files, make targets, variables, job files, decisions."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from leasehold.facts import profiles
from leasehold.model.job.parse_job import parse_job
from leasehold.model.platform.profile import ENGINES, RUNNABLE
from leasehold.shells.cli.main import parse
from tests.unit.repository.pages import ROOT, SOURCES, all_pages, code_words, lines, manual

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:\$ )?(lease(?: .*)?)$")
_YAML = re.compile(r"(?<![\w/.*<>~-])[\w-]+\.ya?ml\b")
_PATH = re.compile(r"(?<![\w/])(?:src|tests|tools|bench|examples|docs)/[\w./*-]*[\w*]")
_VARIABLE = re.compile(r"\bLEASE(?:HOLD)?_[A-Z][A-Z_]*[A-Z]\b")


# ---------------------------------------------------------------- links


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken_links(page: Path) -> Iterator[str]:
    """Name the relative links of a page that lead nowhere."""
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        place, _, anchor = target.partition("#")
        if "://" in place or place.startswith("mailto:"):
            continue
        found = (page.parent / place).resolve() if place else page
        if not found.exists() or (anchor and anchor not in _anchors(found)):
            yield f"{page.name}: {target}"


def test_every_link_of_every_page_leads_somewhere() -> None:
    assert [link for page in all_pages() for link in broken_links(page)] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One head, `two`\n[a](page.md#one-head-two) [b](gone.md) [c](#nowhere) [d](https://x.org/gone)\n")
    assert list(broken_links(page)) == ["page.md: gone.md", "page.md: #nowhere"]


def test_the_readme_leads_to_every_page() -> None:
    linked = set(_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    elsewhere = {"dependencies.md", "job-keys.md"}  # CONTRIBUTING.md and job-file.md lead there
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - elsewhere
    assert sorted(name for name in pages if f"docs/{name}" not in linked) == []


# ---------------------------------------------------------------- commands


def wrong_command(command: str) -> str:
    """Say why the real parser refuses a command, or nothing; prose may leave out what a command requires."""
    text = io.StringIO()
    words = shlex.split(re.sub(r"[\[\]]", "", command.split(" | ")[0]), comments=True)[1:]
    with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        if words not in ([], ["--help"], ["--version"]):
            parse(words)
    problem = text.getvalue().partition("error: ")[2].strip()
    placeholder = re.search(r"invalid (?:choice|\w+ value): '[A-Z]+'", problem)
    unfinished = problem.endswith("expected one argument") or problem.startswith("the following arguments are required")
    return "" if placeholder or unfinished else problem


def _commands() -> Iterator[tuple[str, str]]:
    for line in lines(manual()):
        for word in code_words(line):
            shown = _COMMAND.match(word.strip())
            if shown:  # in a block of code a remark may follow
                yield line.where, re.split(r"\s{2,}", shown[1])[0] if line.code else shown[1]


def test_every_command_on_a_page_is_understood_by_the_program() -> None:
    shown = list(_commands())
    assert len(shown) > 100, "the pages show commands"
    assert [f"{where}: {command}: {why}" for where, command in shown if (why := wrong_command(command))] == []


@pytest.mark.parametrize(
    "command", ["lease frobnicate", "lease run --no-such-option", "lease check disk", "lease status --wait x"]
)
def test_a_command_that_does_not_exist_is_found(command: str) -> None:
    assert wrong_command(command)


# ---------------------------------------------------------------- names


def test_every_path_on_a_page_exists() -> None:
    found = [
        (line.where, path) for line in lines(manual()) for word in code_words(line) for path in _PATH.findall(word)
    ]
    assert found
    projects = ROOT / "tests" / "support" / "unchanged"  # pages speak of their files, too
    there = {path: any(ROOT.glob(path)) or any(projects.glob(f"*/{path}")) for _, path in found}
    assert [f"{where}: {path}" for where, path in found if "NNNN" not in path and not there[path]] == []


def test_a_job_file_is_called_what_the_program_looks_for() -> None:
    own = {"our-lab.yaml", "task.yaml"}  # an overlay of somebody's, a SkyPilot task
    known = {"lease.yaml", *own, *(f"{name}.yaml" for name in profiles.names())}
    named = [(line.where, name) for line in lines(manual()) for name in _YAML.findall(line.text)]
    assert [f"{where}: {name}" for where, name in named if name not in known] == []
    assert parse(["run"])[1].job == "lease.yaml"


def test_every_make_target_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = [
        (line.where, target)
        for line in lines(manual())
        for word in code_words(line)
        for target in re.findall(r"(?:^|\s)make ([a-z-]+)", word.strip())
    ]
    assert called
    assert [f"{where}: make {target}" for where, target in called if target not in targets] == []


def test_every_variable_on_a_page_is_known_to_the_program() -> None:
    places = [*SOURCES.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in places if path != Path(__file__))
    known = {*_VARIABLE.findall(code), "LEASE_PARAM_lr"}
    named = [(line.where, name) for line in lines(manual()) for name in _VARIABLE.findall(line.text)]
    assert [f"{where}: {name}" for where, name in named if name not in known] == []


def test_every_part_of_a_job_file_on_a_page_is_understood() -> None:
    blocks = [
        block
        for page in manual()
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        if not block.startswith("# ")  # the name of another file: a profile
    ]
    assert blocks
    rest = {"name": "rest", "run": "true", "artifacts": {"result.json": "json"}}
    for block in blocks:
        parse_job({**rest, **yaml.safe_load(block)}, block)


# ---------------------------------------------------------------- what there is


def test_the_engines_that_can_run_are_those_that_the_page_says() -> None:
    planned = [name for name in ENGINES if name not in RUNNABLE]
    row = next(line.text for line in lines([ROOT / "docs/platforms-own.md"]) if line.text.startswith("| `engine` |"))
    runs, _, refused = row.partition(";")
    assert re.findall(r"`(\w+)`", runs)[1:] == list(RUNNABLE)
    assert [name for name in planned if f"`{name}`" not in refused] == []


def test_every_system_part_of_the_tests_is_on_the_page() -> None:
    script = (ROOT / "tools" / "system_parts.sh").read_text(encoding="utf-8")
    table = re.search(r"^parts='\n(.*?)'", script, re.MULTILINE | re.DOTALL)
    assert table
    packages = [line.split()[1] for line in table[1].splitlines()]
    assert [name for name in packages if name not in _joined("docs/dependencies.md")] == []


def _joined(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())
