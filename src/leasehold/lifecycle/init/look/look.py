"""Inspect a project: read within bounds, parse, never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.init.options.flags import find_flags, hydra_config, hydra_folder
from leasehold.lifecycle.init.options.hydra_configs import config_flags, config_outputs, logger_outputs
from leasehold.lifecycle.init.saves.output_flags import with_output_flags
from leasehold.lifecycle.init.saves.resume_flags import with_resume_flags
from leasehold.lifecycle.init.saves.trainers import find_trainer_outputs
from leasehold.lifecycle.init.saves.wrappers import calls_of, find_wrappers
from leasehold.lifecycle.init.saves.writes import find_outputs
from leasehold.lifecycle.init.text.path_patterns import PathReader
from leasehold.lifecycle.init.text.project_facts import Base, Flag, Kind, Output, ProjectFacts, Role, Sign, Style, Where
from leasehold.lifecycle.init.text.project_files import Limits, Listing, list_project
from leasehold.lifecycle.init.text.source import Source, parse_source

from . import code_signs
from .entries import find_entries, main_guard, related_to
from .needs import find_requirements
from .shown_commands import shown_commands

MAX_PYTHON_FILES = 300


def look_at(folder: Path, limits: Limits = Limits()) -> ProjectFacts:  # noqa: B008  frozen
    """Return what a project seems to be; nothing of it is executed or imported."""
    listing = list_project(folder, limits)
    sources = _parse_all(listing)
    entries = find_entries(sources, shown_commands(listing))
    requirements = find_requirements(listing, entries[0].path if entries else "")
    related = related_to(entries[0].path, sources) if entries else ()
    near = [sources[path] for path in related]
    flags = with_resume_flags(with_output_flags(_flags(listing, sources, related), near), near)
    return ProjectFacts(
        name=folder.absolute().name,
        entries=entries,
        related=related,
        frameworks=_each(sources, code_signs.frameworks, near),
        requirements=requirements,
        flags=flags,
        outputs=_outputs(listing, sources, flags, near),
        lease_out=_each(sources, code_signs.lease_out, near),
        resumes=_each(sources, code_signs.resumes, near),
        resume_words=_each(sources, code_signs.resume_words, near),
        resume_reads=_each(sources, code_signs.resume_reads, near),
        load_modes=_each(sources, code_signs.load_modes, near),
        trainers=_each(sources, code_signs.trainers, near),
        trackers=_each(sources, code_signs.trackers, near),
        secrets=_each(sources, code_signs.secrets, near),
        data=_each(sources, code_signs.data, near),
        log_pauses=_each(sources, code_signs.log_pauses, near),
        notebooks=tuple(one_line(path) for path in listing.paths if path.endswith(".ipynb"))[:20],
        folders=tuple(path for path in listing.folders if "/" not in path),
        files=tuple(path for path in listing.paths if "/" not in path),
        unread=tuple(Sign(one_line(sign.word), Where(one_line(sign.where.path))) for sign in listing.unread)[:50],
        files_seen=len(listing.paths),
        truncated=listing.truncated,
    )


def _parse_all(listing: Listing) -> dict[str, Source]:
    python = [path for path in listing.paths if path.endswith(".py")]
    if len(python) > MAX_PYTHON_FILES:
        listing.truncated = True
    sources = {}
    for path in python[:MAX_PYTHON_FILES]:
        content = listing.read(path)
        parsed = parse_source(one_line(path), content) if content is not None else ""
        if isinstance(parsed, Source):
            sources[parsed.path] = parsed
        elif parsed:
            listing.pass_over(path, parsed)
    return sources


def _flags(listing: Listing, sources: Mapping[str, Source], related: tuple[str, ...]) -> tuple[Flag, ...]:
    """List the chosen entry's flags: its own first, then those that its imported files declare for it."""
    found: dict[str, Flag] = {}
    for number, path in enumerate(related):
        if number and main_guard(sources[path]):  # a separate script: its command line is another one
            continue
        folder = hydra_folder(sources[path])
        if folder is not None:
            out = Flag("hydra.run.dir", Role.OUTPUT, Where(path), Style.OVERRIDE)
            for flag in (out, *config_flags(listing, folder)):
                found.setdefault(flag.name, flag)
        for flag in find_flags(sources[path], sources):
            found.setdefault(flag.name, flag)
    return tuple(found.values())


def _outputs(
    listing: Listing, sources: Mapping[str, Source], flags: tuple[Flag, ...], near: list[Source]
) -> tuple[Output, ...]:
    names = {flag.attribute for flag in flags if flag.role is Role.OUTPUT}
    names |= {"output_dir"} if any(flag.name == "hydra.run.dir" for flag in flags) else set()
    found: list[Output] = []
    wrappers = find_wrappers(near)
    by_callers = {wrapper.inside for source in near for _, wrapper in calls_of(wrappers, source)}
    for source in near or list(sources.values()):
        reader = PathReader(source, frozenset(names))
        written = find_trainer_outputs(reader) + find_outputs(reader, wrappers)
        found += [output for output in written if output.where not in by_callers]
        folder = hydra_folder(source)
        if folder is not None:
            found += config_outputs(listing, folder) + logger_outputs(listing, folder, hydra_config(source))
            said = (Base.FLAG, Where(source.path), "Hydra", "output_dir")
            found.append(Output(".hydra/*.yaml", "bytes", Kind.METRICS, *said))
    return tuple(found)


def _each(
    sources: Mapping[str, Source], find: Callable[[Source], Iterator[Sign]], near: list[Source]
) -> tuple[Sign, ...]:
    """Collect one kind of sign from the entry and its imports, or from every file when there is no entry."""
    found: dict[str, Sign] = {}
    for source in near or list(sources.values()):
        for sign in find(source):
            found.setdefault(sign.word, sign)
    return tuple(found.values())
