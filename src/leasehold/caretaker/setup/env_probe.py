"""Run by the interpreter that will be launched: print its identity and what it can import, as one JSON line.

Stands alone (no import of ours), and runs on any Python 3. Without module names nothing is imported: the
frameworks are then read from their metadata and version files, which takes milliseconds.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
from typing import Any, Dict, Iterator, List

# What a rented image brings and set-up must not replace, and what belongs to it (names that torch's metadata lists).
FRAMEWORKS = ("torch", "torchvision", "torchaudio")
COMPANIONS = ("triton", "pytorch-triton", "nvidia-")
_INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")


def main() -> None:
    """Print the facts."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != here]  # our modules are not theirs
    facts: Dict[str, Any] = {
        "executable": sys.executable,
        "version": sys.version.split()[0],
        "prefix": sys.prefix,
        "frameworks": frameworks(),
        "installed": installed(),
        "modules": {},
    }
    for name in sys.argv[1:]:
        if name.startswith("own:"):
            facts.setdefault("own", {})[name[4:]] = _place_of(name[4:])
        else:
            facts["modules"][name] = _look(name)
    if "torch" in facts["modules"] and facts["modules"]["torch"].get("ok"):
        facts["torch"] = _torch()
    sys.stdout.write("\nLEASEHOLD-ENV " + json.dumps(facts) + "\n")


def frameworks() -> Dict[str, Dict[str, Any]]:
    """Read the installed frameworks' versions, CUDA builds and files, without importing them."""
    found = {}
    for name in FRAMEWORKS:
        facts = _read_framework(name)
        if facts is not None:
            found[name] = facts
    if "torch" in found:
        for name in _companions():
            version = _version(name)
            if version:
                found[name] = {"version": version, "cuda": "", "file": "", "pip": True}
    return found


def installed() -> str:
    """Return a fingerprint of everything installed: any install or removal changes it."""
    rows: List[str] = []
    for place in sys.path:
        try:
            found = [entry for entry in os.scandir(place or ".") if entry.name.endswith(_INSTALLED)]
            rows += ["%s %d" % (entry.path, entry.stat(follow_symlinks=False).st_mtime_ns) for entry in found]
        except OSError:  # no folder: a zip, or a path that is gone
            continue
    return hashlib.sha256("\n".join(sorted(rows)).encode("utf-8", "surrogateescape")).hexdigest()


def _read_framework(name: str) -> Any:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    origin = (spec.origin or "") if spec is not None else ""
    version = _version(name)
    text = ""
    try:
        with open(os.path.join(os.path.dirname(origin), "version.py"), encoding="utf-8", errors="replace") as file:
            text = file.read(20000)
    except OSError:
        pass
    if not origin or (not version and not text):
        return None
    return {
        "version": version or _assigned("__version__", text),
        "cuda": _assigned("cuda", text) or _assigned("hip", text),
        "file": origin,
        "pip": bool(version),
    }


def _assigned(name: str, text: str) -> str:
    found = re.search(r"^%s\b[^=\n]*=\s*['\"]([^'\"\n]*)['\"]" % name, text, re.M)
    return found.group(1) if found else ""


def _version(name: str) -> str:
    try:
        metadata: Any = importlib.import_module("importlib.metadata")
        return str(metadata.version(name) or "")
    except Exception:  # noqa: BLE001 - not installed by pip, damaged, or a Python older than 3.8: not known
        return ""


def _companions() -> Iterator[str]:
    try:
        metadata: Any = importlib.import_module("importlib.metadata")
        wanted = metadata.requires("torch") or []
    except Exception:  # noqa: BLE001 - as above
        return
    for line in wanted:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", line.strip())[0]).lower()
        if any(name == known or (known.endswith("-") and name.startswith(known)) for known in COMPANIONS):
            yield name


def _place_of(name: str) -> str:
    """Return where a package would be imported from, without importing it; nothing when it is not found."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return ""
    return "" if spec is None else spec.origin or next(iter(spec.submodule_search_locations or []), "")


def _look(name: str) -> Dict[str, Any]:
    try:
        module = __import__(name)
    except BaseException as error:  # noqa: BLE001 - an import may raise anything at all, and that is the answer
        return {"ok": False, "error": "%s: %s" % (type(error).__name__, str(error)[:300])}
    return {"ok": True, "version": str(getattr(module, "__version__", "")), "file": getattr(module, "__file__", "")}


def _torch() -> Dict[str, Any]:
    torch: Any = importlib.import_module("torch")
    facts: Dict[str, Any] = {
        "cuda_build": torch.version.cuda,
        "cuda_available": bool(torch.cuda.is_available()),
        "devices": [],
    }
    if not facts["cuda_available"]:
        return facts
    facts["arch_list"] = list(torch.cuda.get_arch_list())
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        facts["devices"].append({"name": torch.cuda.get_device_name(index), "capability": [major, minor]})
    return facts


if __name__ == "__main__":
    main()
