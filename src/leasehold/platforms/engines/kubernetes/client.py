"""Ask a cluster through kubectl: objects as JSON in and out, each call with a deadline."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.errors import BoxError, LinkError
from leasehold.kit.text.safe_text import one_line, plain
from leasehold.transport.exec.kubectl import Kubectl, explain

from .happenings import RULED, of_event

_ANSWER_S = 60.0
_LONGER_S = 15.0


class NotThere(BoxError):
    """The object does not exist."""


class Cluster:
    """One context and namespace."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.name = str(kubectl)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object, or None if it does not exist."""
        try:
            return self._json(["get", kind, name, "-o", "json"])
        except NotThere:
            return None

    def listed(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """List objects, by label where a selector is given."""
        words = ["get", kind, "-o", "json", *([f"--selector={selector}"] if selector else [])]
        return [item for item in self._json(words).get("items", []) if isinstance(item, dict)]

    def events(self, name: str, uid: str = "") -> list[dict[str, Any]]:
        """List the events of one object, the oldest first."""
        fields = f"involvedObject.name={name}" + (f",involvedObject.uid={uid}" if uid else "")
        found = self._json(["get", "events", "-o", "json", f"--field-selector={fields}"]).get("items", [])
        return sorted(found, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))

    def create(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object from stdin and return it as stored; one that exists already is returned as it is."""
        try:
            return self._json(["create", "-f", "-", "-o", "json", "--validate=false"], value)
        except BoxError as error:
            if error.code != "k8s.exists":
                raise
        kind, name = str(value["kind"]), str(value["metadata"]["name"])
        stored = self.get(kind, name)
        if stored is None:
            raise LinkError("link.lost", f"{kind} {name} existed and is gone; ask again")
        return stored

    def try_create(self, *values: Mapping[str, Any]) -> None:
        """Have the server check objects without storing them (dry run); raise its refusal."""
        several = {"apiVersion": "v1", "kind": "List", "items": list(values)}
        self.ask(["create", "-f", "-", "-o", "name", "--dry-run=server", "--validate=false"], several)

    def replace(self, value: Mapping[str, Any]) -> None:
        """Create an object from stdin, or replace the existing one; its content is never printed."""
        try:
            self.ask(["create", "-f", "-", "-o", "name"], value)
        except BoxError as error:
            if error.code != "k8s.exists":
                raise
            self.ask(["replace", "-f", "-", "-o", "name"], value)

    def delete(self, kind: str, name: str, *, wait_s: float = 0.0) -> None:
        """Delete an object and what it owns; one that is gone is no error. With wait_s, until it is gone."""
        wait = [f"--timeout={int(wait_s)}s"] if wait_s else ["--wait=false"]
        self.ask(["delete", kind, name, "--ignore-not-found", *wait], limit_s=_ANSWER_S + wait_s)

    def may(self, verb: str, resource: str) -> bool:
        """Return whether this account may do this here."""
        what, _, part = resource.partition("/")
        words = ["auth", "can-i", verb, what, *([f"--subresource={part}"] if part else [])]
        done = self._run(words, None, _ANSWER_S)
        said = done.stdout.decode("utf-8", "replace").strip()
        if said not in ("yes", "no"):
            raise self._error(done)
        return said == "yes"

    def version(self) -> str:
        """Return the server's version, such as 1.31."""
        server = self._json(["version", "-o", "json"]).get("serverVersion") or {}
        return f"{server.get('major', '?')}.{str(server.get('minor', '?')).rstrip('+')}"

    def ask(self, words: Sequence[str], value: Mapping[str, Any] | None = None, limit_s: float = _ANSWER_S) -> str:
        """Run kubectl and return what it prints."""
        done = self._run(words, value, limit_s)
        if done.returncode != 0:
            raise self._error(done)
        return done.stdout.decode("utf-8", "replace")

    def _json(self, words: Sequence[str], value: Mapping[str, Any] | None = None) -> dict[str, Any]:
        text = self.ask(words, value)
        try:
            found = json.loads(text)
        except ValueError:
            raise LinkError(
                "link.strange", f"{self.name}: kubectl printed no JSON", seen=one_line(text[:200])
            ) from None
        if not isinstance(found, dict):
            raise LinkError("link.strange", f"{self.name}: kubectl printed no object", seen=one_line(text[:200]))
        return found

    def _run(
        self, words: Sequence[str], value: Mapping[str, Any] | None, limit_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        argv = self.kubectl.argv(f"--request-timeout={int(limit_s)}s", *words)
        try:
            return subprocess.run(
                argv, input=json.dumps(value).encode() if value is not None else b"", capture_output=True,
                timeout=limit_s + _LONGER_S, env=os.environ, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise LinkError(
                "link.no_program", f"{argv[0]} is not installed here",
                hint="install kubectl (Debian: kubernetes-client); LEASEHOLD_KUBECTL names another one",
            ) from None  # fmt: skip
        except subprocess.TimeoutExpired:
            raise LinkError("link.timeout", f"{self.name}: kubectl did not answer within {limit_s:.0f} s") from None

    def _error(self, done: subprocess.CompletedProcess[bytes]) -> BoxError | LinkError:
        said = plain(done.stderr.decode("utf-8", "replace")).strip()
        last = one_line(said.splitlines()[-1]) if said else f"exit {done.returncode}"
        if "(NotFound)" in said or "not found" in last and "context" not in last and "executable" not in last:
            return NotThere("k8s.absent", f"{self.name}: {last}")
        if "(AlreadyExists)" in said:
            return BoxError("k8s.exists", f"{self.name}: {last}")
        ruled = of_event({"reason": "FailedCreate", "message": last})
        if ruled is not None and ruled.kind in RULED:
            return BoxError(ruled.kind, f"{self.name}: {ruled.text}", hint=ruled.remedy)
        known = explain(self.name, done.returncode, said)
        if known.code != "link.lost":
            return known
        return BoxError(
            "k8s.refused", f"{self.name} refused: {last}", hint="the server's own words; nothing was started"
        )
