"""A container of a Kubernetes pod behind the user's own `kubectl`: contexts, auth plugins and proxies just work."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from typing import NamedTuple

from leasehold.errors import LinkError
from leasehold.transport.process import ProcessLink


class Kubectl(NamedTuple):
    """The kubectl command of one context and namespace; LEASEHOLD_KUBECTL replaces `kubectl`."""

    context: str
    namespace: str

    def argv(self, *words: str) -> list[str]:
        """Build a command line; it contains no secret."""
        own = shlex.split(os.environ.get("LEASEHOLD_KUBECTL", "kubectl"))
        place = [f"--context={self.context}"] if self.context else []
        place += [f"--namespace={self.namespace}"] if self.namespace else []
        return [*own, *place, *words]

    def __str__(self) -> str:
        return f"k8s:{self.context}" + (f"/{self.namespace}" if self.namespace else "")


class KubectlTransport:
    """Opens `kubectl exec -i` streams into the container that runs (or holds) one run's state."""

    checked = True  # exec can cut, repeat or lose bytes, and its end may never arrive
    met = True  # no sshd whose login could print a menu

    def __init__(self, kubectl: Kubectl, pod: Callable[[], str], container: str, *, name: str = "") -> None:
        """Prepare; pod names the pod anew at each open."""
        self.kubectl = kubectl
        self.name = name or str(kubectl)
        self._pod = pod
        self._container = container

    def open(self, command: str) -> ProcessLink:
        """Start command in the container."""
        return ProcessLink(self.argv("sh", "-c", command), os.environ, self._explain)

    def argv(self, *command: str) -> list[str]:
        """Build the command line of an exec; never with a terminal, which would change bytes."""
        return self.kubectl.argv("exec", "-i", self._pod(), "-c", self._container, "--", *command)

    def tunnel_argv(self, near_port: int, far_port: int) -> list[str]:
        """Build a command line that forwards a local port to the pod's loopback."""
        return self.kubectl.argv("port-forward", "--address=127.0.0.1", self._pod(), f"{near_port}:{far_port}")

    def person_argv(self, command: str, *, terminal: bool) -> list[str]:
        """Build a command line for a person's own command, or for a shell if it is empty."""
        flags = ["-i", *(["-t"] if terminal else [])]
        words = ["sh", "-c", command] if command else ["sh"]
        return self.kubectl.argv("exec", *flags, self._pod(), "-c", self._container, "--", *words)

    def _explain(self, code: int, said: str) -> LinkError:
        return explain(self.name, code, said)


def explain(name: str, code: int, said: str) -> LinkError:
    """Turn kubectl's own words into an error that says what to do."""
    last = said.splitlines()[-1].strip() if said else ""
    for pattern, error, message, hint in MEANINGS:
        if re.search(pattern, said):
            return LinkError(error, message.format(name=name), seen=last, hint=hint)
    return LinkError("link.lost", f"kubectl's connection to {name} ended (exit {code})", seen=last)


MEANINGS = [
    (
        "context .* does not exist|no context exists|current-context is not set",
        "link.no_such_host",
        "{name}: your kubeconfig has no such context",
        "kubectl config get-contexts lists them; KUBECONFIG may name another file",
    ),
    (
        "Unauthorized|must be logged in|getting credentials|executable .* not found|token .* expired",
        "link.auth_failed",
        "{name} refused your credentials",
        "try `kubectl get pods` by hand; log in again with your provider's tool",
    ),
    (
        "[Ff]orbidden",
        "link.auth_failed",
        "{name}: your account may not do this",
        "lease k8s rights lists the verbs that are missing and prints the Role to ask for",
    ),
    (
        "completed pod|container not found|current phase is (Succeeded|Failed)|pod does not exist"
        '|pods? ".*" not found|is terminated|container .* is not (running|valid)',
        "link.pod_over",
        "{name}: the pod is gone or has ended",
        "the next command finds the pod that followed it, or reads its volume through a small reader pod",
    ),
    (
        "Unable to connect|connection refused|connection reset|no route to host|i/o timeout|TLS handshake timeout"
        "|EOF|was refused|not currently able|etcdserver|ServiceUnavailable|http2:|error dialing backend",
        "link.refused",
        "{name}: the API server does not answer",
        "is the network or VPN up? Nothing was changed; the identical command tries again",
    ),
]
