"""A real Kubernetes on loopback: etcd, apiserver, controller-manager and scheduler; and, as root, a kubelet.

Everything is a foreground child of the test and ends by its pid. tools/k8s_parts.sh builds the programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional

from tests.support.front import smi_script
from tests.support.k8s_image import add_python, busybox_root, write_image
from tests.support.parts import find_program
from tests.support.ports import free_ports

VERSION = "1.20.2"
TOKEN = "a-token-of-the-tests"
CONTEXT = "bed"
IMAGE = "leasehold.test/python:1"
NODE = "node-1"
_PAUSE = "leasehold.test/pause:1"
_UP_WITHIN_S = 90.0


def programs() -> Path:
    """Name the folder of the built programs."""
    return Path(os.environ.get("LEASEHOLD_K8S", "/var/cache/leasehold-k8s")) / VERSION / "bin"


def missing_k8s() -> Optional[str]:
    """Say why no control plane can run here, or None."""
    if not os.environ.get("LEASEHOLD_K8S"):  # 20 clusters' lives take ten minutes: asked for by name
        return "not asked for (make kubernetes)"
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"):
        if not (programs() / name).exists():
            return "no %s here (tools/k8s_parts.sh builds it)" % name
    return None if find_program("etcd") else "no etcd here (Debian: apt-get install etcd-server)"


def missing_kubelet() -> Optional[str]:
    """Say why no kubelet can run pods here, or None."""
    if os.geteuid() != 0:
        return "a kubelet needs root"
    for name, package in (
        ("containerd", "containerd"),
        ("runc", "runc"),
        ("busybox", "busybox-static"),
        ("ip", "iproute2"),
    ):
        if find_program(name) is None:
            return "no %s here (Debian: apt-get install %s)" % (name, package)
    if not Path("/usr/lib/cni/bridge").exists():
        return "no bridge here (Debian: apt-get install containernetworking-plugins)"
    if not (programs() / "kubelet").exists():
        return "no kubelet here (tools/k8s_parts.sh builds it)"
    if not os.path.exists("/sys/fs/cgroup/memory"):
        return "no memory cgroup of version 1 here"
    return missing_k8s()


class K8sCluster:
    """One cluster; `kubectl()` asks it as its administrator."""

    def __init__(self, folder: Path, kubelet: bool = True) -> None:
        self.folder = folder
        self.has_kubelet = kubelet
        first = free_ports(8)
        self._etcd_port, self._peer_port, self.port, self._manager_port, self._scheduler_port = range(first, first + 5)
        self._kubelet_port, self._health_port = first + 5, first + 6
        self._children: "Dict[str, subprocess.Popen[bytes]]" = {}
        self._net = random.SystemRandom().randrange(64, 250)
        self._bridge = "lhk%d" % self._net
        self.kubeconfig = folder / "kubeconfig"
        self.environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "LEASEHOLD_KUBECTL": str(programs() / "kubectl"),
        }

    def __enter__(self) -> K8sCluster:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._start_control_plane()
            if self.has_kubelet:
                self._start_kubelet()
            return self
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: Optional[type], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def kubectl(self, *words: str, text: str = "", check: bool = True) -> str:
        """Run kubectl as the administrator and return what it prints."""
        done = subprocess.run(
            [str(programs() / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words],
            input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise RuntimeError("kubectl %s: %s" % (" ".join(words), done.stderr.decode()))
        return done.stdout.decode()

    def get(self, *words: str) -> Any:
        """Return objects as kubectl has them."""
        return json.loads(self.kubectl("get", "-o", "json", *words))

    def apply(self, *objects: Dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def restart(self, name: str) -> None:
        """Kill one program and start it again."""
        child = self._children.pop(name)
        child.kill()
        child.wait()
        getattr(self, "_start_" + name)()
        if name == "apiserver":
            self._wait_ready()

    def close(self) -> None:
        """End everything, pods first; called twice, the second call finds nothing."""
        for name in ("kubelet",):
            self._end(name)
        if "containerd" in self._children:
            self._clear_containers()
        for name in ("containerd", "scheduler", "manager", "apiserver", "etcd"):
            self._end(name)
        if self.has_kubelet and os.geteuid() == 0:
            for mount in sorted(_mounts_below(str(self.folder)), reverse=True):
                subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "link", "del", self._bridge], check=False, stderr=subprocess.DEVNULL)
            self._drop_cgroups()

    def _start(self, name: str, argv: List[str], env: Optional[Dict[str, str]] = None) -> None:
        with open(str(self.folder / (name + ".log")), "ab") as log:
            self._children[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})},
                start_new_session=True,
            )  # fmt: skip

    def _end(self, name: str) -> None:
        child = self._children.pop(name, None)
        if child is None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _start_control_plane(self) -> None:
        certs = self.folder / "certs"
        certs.mkdir(exist_ok=True)
        subprocess.run(
            ["openssl", "genrsa", "-out", str(certs / "sa.key"), "2048"], check=True, stderr=subprocess.DEVNULL
        )
        (self.folder / "tokens.csv").write_text('%s,admin,admin,"system:masters"\nsmall-token,small,small\n' % TOKEN)
        self._write_kubeconfig()
        self._start_etcd()
        self._start_apiserver()
        self._wait_ready()
        self._start_manager()
        self._start_scheduler()
        self.apply(
            {
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "kubernetes.io/host-path", "reclaimPolicy": "Delete",
            }
        )  # fmt: skip

    def _start_etcd(self) -> None:
        client, peer = "http://127.0.0.1:%d" % self._etcd_port, "http://127.0.0.1:%d" % self._peer_port
        self._start("etcd", [
            find_program("etcd") or "etcd", "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
        ])  # fmt: skip

    def _start_apiserver(self) -> None:
        key = str(self.folder / "certs" / "sa.key")
        self._start("apiserver", [
            str(programs() / "kube-apiserver"), "--etcd-servers=http://127.0.0.1:%d" % self._etcd_port,
            "--cert-dir=%s/certs" % self.folder, "--bind-address=127.0.0.1", "--secure-port=%d" % self.port,
            "--insecure-port=0", "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
            "--token-auth-file=%s/tokens.csv" % self.folder, "--authorization-mode=RBAC,Node",
            "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
            "--disable-admission-plugins=ServiceAccount", "--feature-gates=TTLAfterFinished=true",
        ])  # fmt: skip

    def _start_manager(self) -> None:
        self._start("manager", [
            str(programs() / "kube-controller-manager"), "--kubeconfig=" + str(self.kubeconfig),
            "--service-account-private-key-file=%s/certs/sa.key" % self.folder,
            "--root-ca-file=%s/certs/apiserver.crt" % self.folder, "--leader-elect=false", "--controllers=*",
            "--feature-gates=TTLAfterFinished=true", "--port=0", "--secure-port=%d" % self._manager_port,
            "--bind-address=127.0.0.1", "--cert-dir=%s/certs" % self.folder, "--enable-hostpath-provisioner=true",
            "--kube-api-qps=1000", "--kube-api-burst=2000",
        ])  # fmt: skip

    def _start_scheduler(self) -> None:
        self._start("scheduler", [
            str(programs() / "kube-scheduler"), "--kubeconfig=" + str(self.kubeconfig), "--leader-elect=false",
            "--port=0", "--secure-port=%d" % self._scheduler_port, "--bind-address=127.0.0.1",
            "--kube-api-qps=1000", "--kube-api-burst=2000", "--cert-dir=%s/certs" % self.folder,
        ])  # fmt: skip

    def _write_kubeconfig(self) -> None:
        server = {"server": "https://127.0.0.1:%d" % self.port, "insecure-skip-tls-verify": True}
        users = [{"name": "admin", "user": {"token": TOKEN}}, {"name": "small", "user": {"token": "small-token"}}]
        places = [(CONTEXT, "admin"), ("small", "small")]
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": CONTEXT, "users": users,
            "clusters": [{"name": "bed", "cluster": server}],
            "contexts": [{"name": name, "context": {"cluster": "bed", "user": user}} for name, user in places],
        }))  # fmt: skip
        self.kubeconfig.chmod(0o600)

    def _wait_ready(self) -> None:
        unchecked = ssl._create_unverified_context()
        asked = urllib.request.Request(
            "https://127.0.0.1:%d/readyz" % self.port, headers={"Authorization": "Bearer " + TOKEN}
        )
        deadline = time.monotonic() + _UP_WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(asked, context=unchecked, timeout=5).read() == b"ok":
                    return
            time.sleep(0.1)
        raise RuntimeError("the apiserver did not come up: " + self._last_words("apiserver"))

    def _last_words(self, name: str) -> str:
        return (self.folder / (name + ".log")).read_text("utf-8", "replace")[-2000:]

    # ------------------------------------------------------------ the node

    def _start_kubelet(self) -> None:
        if "containerd" not in self._children:
            self._start_containerd()
        address = "10.244.%d.1" % self._net
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "cgroupfs",
            "nodeStatusUpdateFrequency": "1s", "failSwapOn": False, "address": address, "port": self._kubelet_port,
            "readOnlyPort": 0, "healthzPort": self._health_port, "clusterDomain": "cluster.local",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99, "makeIPTablesUtilChains": False, "cgroupsPerQOS": True,
            "cgroupRoot": "/" + self._bridge, "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        }  # fmt: skip
        for kind in ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd", "hugetlb"):
            with contextlib.suppress(OSError):
                os.mkdir("/sys/fs/cgroup/%s/%s" % (kind, self._bridge))
        (self.folder / "kubelet.json").write_text(json.dumps(config))
        self._start("kubelet", [
            str(programs() / "kubelet"), "--config=%s/kubelet.json" % self.folder, "--hostname-override=" + NODE,
            "--kubeconfig=" + str(self.kubeconfig), "--root-dir=%s/kubelet" % self.folder, "--node-ip=" + address,
            "--container-runtime=remote", "--container-runtime-endpoint=unix://%s/c.sock" % self.folder,
            "--cert-dir=%s/kubelet-certs" % self.folder, "--seccomp-profile-root=%s/seccomp" % self.folder,
        ], {"AWS_EC2_METADATA_DISABLED": "true"})  # fmt: skip
        self._wait_node()

    def _start_containerd(self) -> None:
        subprocess.run(["ip", "link", "add", self._bridge, "type", "bridge"], check=True)
        subprocess.run(["ip", "addr", "add", "10.244.%d.1/24" % self._net, "dev", self._bridge], check=True)
        subprocess.run(["ip", "link", "set", self._bridge, "up"], check=True)
        cni = self.folder / "cni"
        cni.mkdir()
        (cni / "10-bed.conf").write_text(json.dumps({
            "cniVersion": "0.3.1", "name": "bed", "type": "bridge", "bridge": self._bridge, "isGateway": True,
            "ipam": {
                "type": "host-local", "subnet": "10.244.%d.0/24" % self._net, "dataDir": str(self.folder / "ipam"),
            },
        }))  # fmt: skip
        (self.folder / "containerd.toml").write_text(
            'version = 2\nroot = "{0}/containerd/root"\nstate = "{0}/containerd/state"\n'
            '[grpc]\naddress = "{0}/c.sock"\n'
            '[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "{1}"\nrestrict_oom_score_adj = true\n'
            'stream_server_address = "127.0.0.1"\nstream_server_port = "0"\n'
            '[plugins."io.containerd.grpc.v1.cri".containerd]\nsnapshotter = "native"\n'
            '[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "/usr/lib/cni"\nconf_dir = "{0}/cni"\n'.format(
                self.folder, _PAUSE
            )
        )
        self._start(
            "containerd", [find_program("containerd") or "containerd", "-c", str(self.folder / "containerd.toml")]
        )
        deadline = time.monotonic() + _UP_WITHIN_S
        while not (self.folder / "c.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self._import_images()

    def _import_images(self) -> None:
        busybox = find_program("busybox") or "busybox"
        for name, python in ((_PAUSE, False), (IMAGE, True)):
            root = self.folder / "image"
            busybox_root(root, busybox)
            if python:
                add_python(root)
                (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n" + smi_script(["NVIDIA A100, 81920"]))
                (root / "usr/bin/nvidia-smi").chmod(0o755)
            entry = ["/bin/sh"] if python else ["/bin/sleep", "2147483647"]
            write_image(name, self.folder / "image.tar", entry, root)
            self._ctr("images", "import", str(self.folder / "image.tar"))
            shutil.rmtree(str(root))

    def _ctr(self, *words: str, check: bool = True) -> str:
        argv = [find_program("ctr") or "ctr", "-a", str(self.folder / "c.sock"), "-n", "k8s.io", *words]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        if check and done.returncode != 0:
            raise RuntimeError("ctr %s: %s" % (" ".join(words), done.stderr.decode()))
        return done.stdout.decode()

    def _wait_node(self) -> None:
        deadline = time.monotonic() + _UP_WITHIN_S
        while time.monotonic() < deadline:
            nodes = self.get("nodes")["items"]
            ready = [
                c["status"] for node in nodes for c in node["status"].get("conditions", []) if c["type"] == "Ready"
            ]
            if ready == ["True"]:
                return
            time.sleep(0.2)
        raise RuntimeError("the node did not become ready: " + self._last_words("kubelet"))

    def give_gpus(self, count: int) -> None:
        """Have the node offer so many pretended cards."""
        unchecked = ssl._create_unverified_context()
        path = "/status/capacity/nvidia.com~1gpu"
        body = json.dumps([{"op": "add", "path": path, "value": str(count)}]).encode()
        asked = urllib.request.Request(
            "https://127.0.0.1:%d/api/v1/nodes/%s/status" % (self.port, NODE), data=body, method="PATCH",
            headers={"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json-patch+json"},
        )  # fmt: skip
        urllib.request.urlopen(asked, context=unchecked, timeout=10).read()

    def _clear_containers(self) -> None:
        with contextlib.suppress(Exception):
            for task in self._ctr("tasks", "ls", "-q", check=False).split():
                self._ctr("tasks", "kill", "-s", "SIGKILL", task, check=False)
            for task in self._ctr("containers", "ls", "-q", check=False).split():
                self._ctr("tasks", "delete", "-f", task, check=False)
                self._ctr("containers", "rm", task, check=False)

    def _drop_cgroups(self) -> None:
        for kind in os.listdir("/sys/fs/cgroup"):
            top = "/sys/fs/cgroup/%s/%s" % (kind, self._bridge)
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)


def _mounts_below(folder: str) -> List[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(folder + "/")]
