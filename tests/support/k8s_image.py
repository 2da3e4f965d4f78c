"""Container images without a container tool: busybox and this system's Python, as a docker archive."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import List, Sequence

_APPLETS = (
    "sh cat ls mkdir rm mv cp stat date sleep printf echo env id ps kill head tail true false test touch wc grep sed "
    "tr dd sync nice ln"
)
_LEFT_OUT = re.compile(
    r"/(test|tests|idlelib|tkinter|ensurepip|lib2to3|turtledemo|__pycache__|site-packages|dist-packages|config-[^/]*)"
    r"(/|$)"
)


def write_image(name: str, to: Path, entry: Sequence[str], root: Path) -> None:
    """Write a folder as an image of one layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(str(root), arcname=".", recursive=True)
    data = layer.getvalue()
    platform = {"architecture": "amd64", "os": "linux"}
    config = {
        **platform,
        "config": {"Entrypoint": list(entry), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]},
        "history": [{"created_by": "leasehold tests"}],
    }
    settings = json.dumps(config).encode()
    settings_name = hashlib.sha256(settings).hexdigest() + ".json"
    listed = json.dumps([{"Config": settings_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(str(to), "w") as tar:
        for file_name, body in ((settings_name, settings), ("layer.tar", data), ("manifest.json", listed)):
            info = tarfile.TarInfo(file_name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))


def busybox_root(root: Path, busybox: str) -> None:
    """Lay out busybox with its usual names."""
    (root / "bin").mkdir(parents=True)
    for name in ("tmp", "proc", "dev", "etc", "root", "usr/bin"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(busybox, str(root / "bin" / "busybox"))
    for applet in _APPLETS.split():
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")


def add_python(root: Path) -> None:
    """Copy this system's Python with the libraries that it and its modules need."""
    interpreter = Path(sys.executable).resolve()
    ask = "import sys, sysconfig; print(sysconfig.get_path('stdlib')); print(sys.base_prefix)"
    asked = subprocess.run([str(interpreter), "-I", "-S", "-c", ask], stdout=subprocess.PIPE, check=True)
    said = asked.stdout.decode().split("\n")
    library, prefix = Path(said[0]), Path(said[1])
    target = root / str(library).lstrip("/")

    def unneeded(folder: str, names: List[str]) -> List[str]:
        return [name for name in names if _LEFT_OUT.search("%s/%s" % (folder, name)) or name.endswith(".a")]

    shutil.copytree(str(library), str(target), ignore=unneeded, symlinks=True)
    program = root / str(prefix).lstrip("/") / "bin" / interpreter.name
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(str(interpreter), str(program))
    (root / "usr/bin/python3").symlink_to("/" + str(program.relative_to(root)))
    for needed in {
        *_libraries(interpreter),
        *(lib for so in target.glob("lib-dynload/*.so") for lib in _libraries(so)),
    }:
        place = root / needed.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed, str(place))


def _libraries(program: Path) -> List[str]:
    said = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(", said.decode(), re.M)
