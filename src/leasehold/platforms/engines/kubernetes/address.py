"""Addresses of clusters: k8s:CONTEXT[/NAMESPACE], and of one run's objects there: k8s:CONTEXT/NAMESPACE/NAME."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from leasehold.errors import UserError
from leasehold.model.lease.box import K8S

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_CONTEXT = re.compile(r"[^\s\x00-\x1f-][^\s\x00-\x1f]*\Z")


class ClusterAddress(NamedTuple):
    """A context of the kubeconfig, a namespace in it, and the name of one job's objects."""

    context: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str, contexts: Sequence[str] = ()) -> ClusterAddress:
        """Read an address; a context of the kubeconfig that holds slashes itself is recognised by its whole name."""
        body = text[len(K8S) :] if text.startswith(K8S) else text
        whole = max((known for known in contexts if body == known or body.startswith(known + "/")), key=len, default="")
        context, rest = (whole, body[len(whole) + 1 :]) if whole else body.partition("/")[::2]
        namespace, _, name = rest.partition("/")
        wrong = [word for word in (namespace, name) if word and not _LABEL.match(word)]
        if not _CONTEXT.match(context) or wrong:
            raise UserError(
                "box.bad_address",
                f"{text!r} is not the address of a cluster",
                hint="write k8s:CONTEXT or k8s:CONTEXT/NAMESPACE; kubectl config get-contexts lists the contexts",
            )
        return cls(context, namespace, name)

    def __str__(self) -> str:
        return K8S + "/".join(word for word in (self.context, self.namespace, self.name) if word)


def object_name(run: str) -> str:
    """Return the name of a run's objects: a DNS label, the same for every generation of the run."""
    name = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    head, _, tail = name.rpartition("-")
    return f"lease-{head[:40].strip('-')}-{tail}" if head else f"lease-{name}"
