"""Find the interpreter that a command line would start, and query it for the environment gate."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from leasehold.caretaker.attempt.platform_shell import Outfit
from leasehold.caretaker.attempt.short_command import run_dressed
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.run.shell_installs import unquoted

from . import env_probe

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*\Z")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "lightning", "composer", "jupyter")
# These make or enter an environment only when the run starts: there is nothing to query before.
_LATER = ("uv", "poetry", "pipenv", "pdm", "hatch", "pixi", "docker", "podman", "apptainer", "singularity", "srun")
_CARRIERS = ("conda", "mamba", "micromamba", "env")  # the words after these choose the interpreter
# Commands at the start of a line that decide which interpreter it gets, and that are safe to run twice.
_PREPARES = (("cd",), ("export",), (".",), ("source",), ("conda", "activate"), ("module", "load"))
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[^(`]*\Z", re.DOTALL)
_TOKEN = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_TIMEOUT_S = 180
_ANSWER = b"LEASEHOLD-ENV "
_NO_HOME = "pip, torch and most libraries write below it: create the folder, or set HOME to one that exists"


class Starter(NamedTuple):
    """How a command line reaches its interpreter: the preparing commands, the words before it, and its own word."""

    prepare: Tuple[str, ...]
    before: str
    interpreter: str  # unquoted, for people
    spelled: str  # as written for the shell: quotes, ~ and $ are kept

    def line(self, strict: bool = False) -> str:
        """Build a shell line that starts the same interpreter with other arguments; strict: only if all prepares."""
        steps = ["%s%s 2>/dev/null" % ("command " if step[0] == "." else "", step) for step in self.prepare]
        return (" && " if strict else "; ").join([*steps, '%s%s "$0" "$@"' % (self.before, self.spelled)])


def check(args: Dict[str, Any], root: str = "") -> Dict[str, Any]:
    """Run env_probe with the interpreter that `command` names, in the environment the trainer would get."""
    starter = starter_of(str(args.get("command", "")))
    if starter is None:
        return {"problem": "no Python interpreter is named in the command, so there is nothing to ask"}
    home = os.path.expanduser("~")
    if not os.path.isdir(home):
        raise Refused("box.no_home", "HOME is %s, which is no folder on this box" % home, _NO_HOME)
    env = {str(name): str(value) for name, value in (args.get("env") or {}).items()}
    outfit = Outfit(root or os.path.expanduser("~"), args.get("platform") or {}, env)
    modules = [str(name) for name in args.get("modules") or []]
    interpreter = starter.interpreter
    try:
        done, problem = run_dressed(outfit, _asked(starter, modules, strict=False), timeout_s=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return _silent(interpreter)
    if problem:
        return {"interpreter": interpreter, "problem": problem}
    return _answer(interpreter, done.returncode, done.stdout)


def ask(
    starter: Starter, modules: List[str], environ: Dict[str, str], folder: str, strict: bool = False
) -> Dict[str, Any]:
    """Start the interpreter with env_probe, in a shell that is already dressed; without modules it imports nothing."""
    interpreter = starter.interpreter
    try:
        done = subprocess.run(
            _asked(starter, modules, strict), env=environ, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _silent(interpreter)
    return _answer(interpreter, done.returncode, done.stdout)


def _asked(starter: Starter, modules: List[str], strict: bool) -> List[str]:
    return ["/bin/sh", "-c", starter.line(strict), env_probe.__file__, *modules]


def _silent(interpreter: str) -> Dict[str, Any]:
    return {"interpreter": interpreter, "problem": "%s did not answer in %d s" % (interpreter, _TIMEOUT_S)}


def beside_pip(pip: str, environ: Dict[str, str], folder: str) -> Optional[Starter]:
    """Return the python for which a pip installs, if that pip is there now."""
    import shutil

    where = os.path.join(folder, pip) if os.sep in pip else shutil.which(pip, path=environ.get("PATH"))
    if not where or not os.path.exists(where):
        return None
    python = _beside(where)
    return Starter((), "", python, shlex.quote(python))


def starter_of(command: str) -> Optional[Starter]:
    """Find the first simple command that starts a Python, and what decides which one it gets."""
    prepare: List[str] = []
    for part in re.split(r"&&|\|\||[;\n|]", command):
        spelled = _TOKEN.findall(re.split(r"(?:^|\s)#", part)[0])
        words = [unquoted(token) for token in spelled]
        for place, word in enumerate(words):
            launcher = os.path.basename(word) in _LAUNCHERS
            if not launcher and not _PYTHON.match(word):
                continue
            if any(os.path.basename(other) in _LATER for other in words[:place]):
                return None
            before = _before(spelled[:place], words[:place])
            beside = (_beside(word) if not before.carried else "python") if launcher else word
            return Starter(tuple(prepare), before.text, beside, shlex.quote(beside) if launcher else spelled[place])
        if any(tuple(words[: len(known)]) == known for known in _PREPARES):
            prepare.append(part.strip())
    return None


class _Before(NamedTuple):
    text: str
    carried: bool  # an environment is entered by name, so a launcher found on this PATH may be another's


def _before(spelled: List[str], words: List[str]) -> _Before:
    """Keep the variables set for the interpreter and what enters an environment; drop `do`, `nohup`, `time` …"""
    start = next((at for at, word in enumerate(words) if os.path.basename(word) in _CARRIERS), len(words))
    kept = [token for token in spelled[:start] if _ASSIGNMENT.match(token)] + spelled[start:]
    return _Before("".join(token + " " for token in kept), start < len(words) and words[start] != "env")


def _beside(launcher: str) -> str:
    """Return the python of a launcher, a script in some environment's bin whose first line names that python."""
    import shutil

    where = launcher if os.sep in launcher else shutil.which(launcher)
    if where:
        try:
            with open(where, "rb") as file:
                first = file.readline(500)
        except OSError:
            first = b""
        if first.startswith(b"#!") and b"python" in first:
            named = [word for word in first[2:].decode("utf-8", "replace").split() if "python" in word]
            return named[0]  # also of "#!/usr/bin/env python3"
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
