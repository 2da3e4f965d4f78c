"""Recognize output flags by use: the code writes below the flag's value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from leasehold.lifecycle.init.options.flag_roles import names_a_file
from leasehold.lifecycle.init.text.path_patterns import PathReader
from leasehold.lifecycle.init.text.project_facts import Base, Flag, Kind, Role, Style
from leasehold.lifecycle.init.text.source import Source

from .trainers import find_trainer_outputs
from .wrappers import find_wrappers
from .writes import find_outputs

_TAKES_A_PATH = (Style.OPTION, Style.JOINED)


def with_output_flags(flags: tuple[Flag, ...], near: Iterable[Source]) -> tuple[Flag, ...]:
    """Give the output role to flags of unknown names whose value is a folder or file that the code writes."""
    names = frozenset(flag.attribute for flag in flags if flag.role is Role.OTHER and flag.style in _TAKES_A_PATH)
    folders: set[str] = set()
    files: set[str] = set()
    sources = list(near) if names else []
    wrappers = find_wrappers(sources)
    for source in sources:
        reader = PathReader(source, names, sought=True)
        for output in [*find_trainer_outputs(reader), *find_outputs(reader, wrappers)]:
            if output.base is Base.FLAG and output.kind is not Kind.OTHER:
                (folders if output.pattern else files).add(output.flag)
    return tuple(
        replace(flag, role=Role.OUTPUT)
        if flag.attribute in folders or (flag.attribute in files and names_a_file(flag))
        else flag
        for flag in flags
    )
