"""Run by the interpreter that will be launched: says what it is and what it can import, as one JSON line.

Stands alone (no import of ours), and runs on any Python 3.
"""

import importlib
import json
import sys
from typing import Any, Dict


def main() -> None:
    """Print the facts."""
    facts: Dict[str, Any] = {
        "executable": sys.executable,
        "version": sys.version.split()[0],
        "prefix": sys.prefix,
        "modules": {},
    }
    for name in sys.argv[1:]:
        facts["modules"][name] = _look(name)
    if "torch" in facts["modules"] and facts["modules"]["torch"].get("ok"):
        facts["torch"] = _torch()
    sys.stdout.write("\nLEASEHOLD-ENV " + json.dumps(facts) + "\n")


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
