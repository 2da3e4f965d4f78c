"""The environment gate's hands: find the interpreter a command line would start, and ask it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from typing import Any, Dict, List, Optional

from . import env_probe

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*\Z")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "lightning", "composer", "jupyter")
_TIMEOUT_S = 180
_ANSWER = b"LEASEHOLD-ENV "


def check(args: Dict[str, Any]) -> Dict[str, Any]:
    """Run env_probe with the interpreter that `command` names, in the environment the trainer would get."""
    interpreter = interpreter_of(str(args.get("command", "")))
    if interpreter is None:
        return {"problem": "no Python interpreter is named in the command, so there is nothing to ask"}
    environ = dict(os.environ)
    environ.update({str(name): str(value) for name, value in (args.get("env") or {}).items()})
    modules = [str(name) for name in args.get("modules") or []]
    line = '"$0" "$@"'
    asked = ["/bin/sh", "-c", line, interpreter, env_probe.__file__, *modules]
    try:
        done = subprocess.run(
            asked, env=environ, cwd=os.path.expanduser("~"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"interpreter": interpreter, "problem": "%s did not answer in %d s" % (interpreter, _TIMEOUT_S)}
    return _answer(interpreter, done.returncode, done.stdout)


def interpreter_of(command: str) -> Optional[str]:
    """Return the interpreter a command line would start; launchers stand for the python beside them."""
    for words in _simple_commands(command):
        for word in words:
            name = os.path.basename(word)
            if _PYTHON.match(word):
                return word
            if name in _LAUNCHERS:
                return _beside(word)
    return None


def _simple_commands(command: str) -> List[List[str]]:
    parts = re.split(r"&&|\|\||[;\n|]", command)
    found = []
    for part in parts:
        try:
            found.append(shlex.split(part, comments=True))
        except ValueError:
            found.append(part.split())
    return found


def _beside(launcher: str) -> str:
    """A launcher is a script in some environment's bin; its first line names that environment's python."""
    import shutil

    where = launcher if os.sep in launcher else shutil.which(launcher)
    if where:
        try:
            with open(where, "rb") as file:
                first = file.readline(500)
        except OSError:
            first = b""
        if first.startswith(b"#!") and b"python" in first:
            return first[2:].decode("utf-8", "replace").split()[0]
        beside = os.path.join(os.path.dirname(where), "python")
        if os.path.exists(beside):
            return beside
    return "python"


def _answer(interpreter: str, code: int, said: bytes) -> Dict[str, Any]:
    for line in said.splitlines():
        if line.startswith(_ANSWER):
            facts = json.loads(line[len(_ANSWER) :].decode("utf-8"))
            return {"interpreter": interpreter, "problem": "", "facts": facts}
    tail = said.decode("utf-8", "replace").strip().splitlines()[-3:]
    return {"interpreter": interpreter, "problem": "%s exited with %d: %s" % (interpreter, code, " / ".join(tail))}
