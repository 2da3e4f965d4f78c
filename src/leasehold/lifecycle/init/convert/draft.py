"""A job carried over from another tool, before it is written out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.kit.run.editable_installs import editable_installs
from leasehold.lifecycle.init.saves.promises import Promises, find_promises
from leasehold.lifecycle.init.text.page import COMMANDS_SAY, FILL_IN, GUESS, Page, scalar
from leasehold.lifecycle.init.text.project_facts import Base, Kind, Output, ProjectFacts, Where
from leasehold.lifecycle.init.write.write import job_name, write_artifacts, write_tail
from leasehold.model.job.placeholders import escape

from .report import Report
from .script import Script, for_sh, note_far_paths, point_outputs_home, tool_variables, with_conda
from .units import Cards

_NO_RUN = "echo 'lease.yaml is not filled in yet: look for FILL IN' >&2; exit 1"


@dataclass
class Draft:
    """The understood content of another tool's file."""

    kind: str
    source: str
    name: str = ""
    run: Script = Script()
    setup: Script = Script()
    commands: dict[str, str] = field(default_factory=dict)
    cards: Cards | None = None
    disk: str = ""
    expect: str = ""
    attempts: int = 0
    artifacts: list[tuple[str, int]] = field(default_factory=list)
    report: Report = field(default_factory=Report)

    def finish(self, variables: Mapping[str, str], prefix: str) -> None:
        """Adapt both scripts to sh on a box without the tool that they come from."""
        made = bool(re.search(r"\b(?:conda|mamba)\s+(?:env\s+)?create\b", self.setup.text + self.run.text))
        for what, script in (("setup", self.setup), ("run", self.run)):
            if not script:
                continue
            script = with_conda(script, self.report, made)
            script = point_outputs_home(script, self.report) if what == "run" else script
            note_far_paths(script, self.report)
            for line in editable_installs(script.text) if what == "setup" else ():
                self.report.left(0, line, "kept, but an editable install is refused; take the -e line out of `setup`")
            wanted = tool_variables(script, variables, prefix, self.report)
            self.commands[what] = for_sh(script, wanted, self.report, what)

    def text(self, facts: ProjectFacts | None = None) -> str:
        """Format the job file."""
        page = Page()
        self._head(page)
        page.put("name", job_name(self.report.hide(self.name)))
        self._commands(page)
        self._variables(page)
        self._resources(page)
        write_artifacts(page, self._promises(facts))
        write_tail(page, self.expect, "it was a limit there; here nothing is stopped at this time", self.attempts)
        return page.text()

    def _head(self, page: Page) -> None:
        page.say(f"Carried over from {self.source} ({self.kind}) by `lease init`; nothing was run.")
        page.say(f"{FILL_IN} marks what that file did not say, {GUESS} what is unsure. Every key: docs/job-file.md")
        page.say(COMMANDS_SAY)
        if self.report.not_converted:
            page.say("Not carried over, or to be checked:")
        for note in self.report.not_converted[:60]:
            page.say(f"  {note}")
        page.gap()

    def _commands(self, page: Page) -> None:
        page.gap()
        run, setup = self.commands.get("run", ""), self.commands.get("setup", "")
        if not run:
            page.say(f"{FILL_IN}: {self.source} has no command to run.")
        elif "LEASE_OUT" not in run:
            page.say(f"{FILL_IN}: only what is written to $LEASE_OUT comes home; point its output there.")
        page.put("run", escape(run) or _NO_RUN)
        page.gap()
        if not run:
            page.put("smoke", _NO_RUN)
        else:
            why = f"{FILL_IN}: the same in tiny, on this machine's CPU before launch"
            page.suggest(f"smoke: {scalar('python train.py --steps 3')}", why)
        if setup:
            page.gap()
            page.say("Once on the box, before the first attempt, in a shell of its own.")
            page.put("setup", escape(setup))

    def _variables(self, page: Page) -> None:
        if self.report.env:
            page.gap()
            page.open("env")
            for name, value in self.report.env.items():
                page.put_env(name, value)
        if self.report.secrets:
            page.gap()
            page.say("Names only: the values come from your environment at launch and are never stored at home.")
            page.put_list("secrets", self.report.secrets)

    def _resources(self, page: Page) -> None:
        page.gap()
        if self.cards is None and not self.disk:
            page.suggest(
                "resources: {gpu: {count: 1, memory: 24GB+}, disk: 50GB}", f"{FILL_IN}: what the box must have"
            )
            return
        page.open("resources")
        if self.cards is not None:
            page.open("gpu", indent=2)
            if self.cards.name:
                page.put("name", self.cards.name, indent=4)
            page.put_number("count", self.cards.count, indent=4)
            if self.cards.memory:
                page.put("memory", self.cards.memory, indent=4)
        if self.disk:
            page.put("disk", self.disk, indent=2)

    def _promises(self, facts: ProjectFacts | None) -> Promises:
        """Promise the outputs named in the file itself, else those that the project scan found below an output."""
        named = [
            Output(pattern, "bytes", Kind.OTHER, Base.OUT, Where(self.source, line), "artifacts")
            for pattern, line in dict(self.artifacts).items()
            if pattern.isprintable()
        ]
        if named or facts is None:
            return Promises(artifacts=named)
        found = find_promises(facts)
        sure = [output for output in found.artifacts if output.base in (Base.OUT, Base.FLAG)]
        return Promises(artifacts=sure, aside=[output for output in found.artifacts if output not in sure])
