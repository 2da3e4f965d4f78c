"""The contexts of the user's kubeconfig, as kubectl reads it."""

from __future__ import annotations

from leasehold.errors import LinkError
from leasehold.model.lease.box import K8S
from leasehold.transport.exec.kubectl import Kubectl

from .address import ClusterAddress
from .client import Cluster
from .pods import PodTransport

_USUAL_SLASHES = 2  # context, namespace, name


def transport_to(text: str, *, reads: bool = True) -> PodTransport:
    """Resolve an address; kubectl is only asked where the address leaves something open."""
    body = text[len(K8S) :]
    odd = ":" in body or body.count("/") > _USUAL_SLASHES  # such a context may hold slashes itself
    address = ClusterAddress.parse(text, contexts() if odd else ())
    if not address.namespace:
        address = address._replace(namespace=namespace_of(address.context))
    return PodTransport(address, reads=reads)


def contexts() -> list[str]:
    """List the contexts of the kubeconfig."""
    return Cluster(Kubectl("", "")).ask(["config", "get-contexts", "-o", "name"]).split("\n")[:-1]


def namespace_of(context: str) -> str:
    """Return the namespace that the kubeconfig gives to a context; an unknown context is refused."""
    cluster = Cluster(Kubectl("", ""))
    known = contexts()
    if context not in known:
        listed = ", ".join(known[:8]) or "none"
        raise LinkError("link.no_such_host", f"your kubeconfig has no context {context!r}", seen=f"it has: {listed}",
                        hint="kubectl config get-contexts; KUBECONFIG may name another file")  # fmt: skip
    path = '{.contexts[?(@.name=="' + context.replace('"', "") + '")].context.namespace}'
    return cluster.ask(["config", "view", "-o", f"jsonpath={path}"]).strip() or "default"
