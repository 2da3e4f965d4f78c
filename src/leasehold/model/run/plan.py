"""A plan: job and profile resolved, hashed, never edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.file_layouts import PLAN
from leasehold.model.job.job import Job, job_from_dict
from leasehold.model.job.slurm_options import slurm_options

SCHEMA = PLAN


@dataclass(frozen=True)
class Plan:
    """Everything the box needs to know of a run."""

    run: str
    job: Job
    tree: str
    platform: str
    detach: tuple[str, ...]
    cells: tuple[str, ...] = ("main",)
    environment: Mapping[str, Any] = field(default_factory=dict)  # of the platform
    engine: str = "caretaker"
    adopted: Mapping[str, Any] = field(default_factory=dict)  # a trainer started by someone else: {pid, started, …}
    code: str = ""  # the hash of the tree's relevant files, if others lie beside them

    @property
    def patterns(self) -> list[str]:
        """Return the patterns that find the artifacts."""
        return [artifact.pattern for artifact in self.job.artifacts]

    def with_code_of(self, other: Plan) -> Plan:
        """Return the same plan with the code of another."""
        return replace(self, tree=other.tree, code=other.code)

    def body(self) -> dict[str, Any]:
        """Return the form without the hash."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "job": self.job.as_dict(),
            "tree": self.tree,
            "platform": self.platform,
            "detach": list(self.detach),
            "cells": list(self.cells),
            "patterns": self.patterns,
            "attempts": self.job.attempts,
            **({"environment": dict(self.environment)} if self.environment else {}),
            **({"engine": self.engine, "slurm": slurm_options(self.job)} if self.engine == "slurm" else {}),
            **({"engine": self.engine} if self.engine == "kubernetes" else {}),
            **({"adopted": dict(self.adopted)} if self.adopted else {}),
            **({"code": self.code} if self.code else {}),
        }

    @property
    def sha256(self) -> str:
        """Return the hash of the body."""
        return digest(self.body())

    def as_dict(self) -> dict[str, Any]:
        """Return the form that the box stores."""
        body = self.body()
        return {**body, "plan_sha256": digest(body)}


def plan_from_dict(value: dict[str, Any]) -> Plan:
    """Read back a plan that this home wrote into its ledger."""
    return Plan(
        run=value["run"],
        job=job_from_dict(value["job"]),
        tree=value["tree"],
        platform=value["platform"],
        detach=tuple(value["detach"]),
        cells=tuple(value["cells"]),
        environment=value.get("environment", {}),
        engine=value.get("engine", "caretaker"),
        adopted=value.get("adopted", {}),
        code=str(value.get("code", "")),
    )
