"""Parsers of the front door: init, check, attach, tunnel, notify, signer, completion."""

from __future__ import annotations

import argparse
from collections.abc import Callable

AddVerb = Callable[[str, str, str], argparse.ArgumentParser]


def add_front_parsers(verb: AddVerb) -> None:
    """Describe the commands that prepare a run and look at it."""
    _init(verb)
    _check(verb)
    _attach(verb)
    _resume(verb)
    _notify(verb)
    _signer(verb)


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Describe how long a silent box is waited for."""
    parser.add_argument(
        "--wait",
        dest="silence_s",
        type=float,
        default=None,
        metavar="S",
        help="give a silent box up after so long (default: 30 for its first word, then minutes)",
    )


def _init(verb: AddVerb) -> None:
    init = verb(
        "init",
        "write a commented lease.yaml after looking at the project; never overwrites",
        "  lease init\n  lease init --from task.sky.yaml        convert a SkyPilot, sbatch or dstack file",
    )
    init.add_argument(
        "--from", dest="source", default="", metavar="FILE", help="convert sky.yaml, an sbatch script or dstack.yml"
    )
    init.add_argument("--to", default="lease.yaml", metavar="FILE", help="where to write (default: lease.yaml)")
    init.add_argument("--stdout", action="store_true", help="print it instead")


def _check(verb: AddVerb) -> None:
    check = verb(
        "check",
        "run one gate alone and show all it read: plan (job and platform), audit (the box), env (its interpreter), "
        "smoke (here), launch (a run)",
        "  lease check smoke\n  lease check audit --on ssh:gpu1 --deep\n"
        "  lease check audit --on gpu1 --with gpu2      is the shared disk one disk?\n  lease check launch myjob",
    )
    check.add_argument("gate", choices=("plan", "audit", "env", "smoke", "launch"))
    check.add_argument("job", nargs="?", default="lease.yaml", help="job file; for launch: the run")
    check.add_argument("--on", default="local", metavar="BOX", help="which box (default: local)")
    check.add_argument("--root", default="", metavar="DIR", help="our folder on the box")
    check.add_argument(
        "--deep", action="store_true", help="audit: also look for what eats the disk (10 s a disk at most)"
    )
    check.add_argument(
        "--with", dest="other", default="", metavar="BOX", help="audit: prove shared disks from this second box"
    )
    check.add_argument(
        "--kill-check", action="store_true", help="smoke: also kill it halfway and see that it continues"
    )


def _attach(verb: AddVerb) -> None:
    attach = verb(
        "attach",
        "follow a run, also one that another home started on the same box",
        "  lease attach myjob\n  lease attach myjob --on ssh:gpu1      started from another laptop\n"
        "  lease attach myjob --take-over        that laptop is gone: this home ends things from now on",
    )
    attach.add_argument("run")
    add_wait(attach)
    attach.add_argument("--on", default="", metavar="BOX", help="where to look for a run this home does not know")
    attach.add_argument("--root", default="", metavar="DIR", help="our folder on that box")
    attach.add_argument(
        "--take-over", action="store_true", help="hold it from now on; the home that held it may only look (typed yes)"
    )
    attach.add_argument("--results", default="", metavar="DIR", help="where its results shall come home to")
    _adopt(verb)
    handbook = verb(
        "handbook",
        "print a run's handbook: where everything lies, how to look, resume, stop, bring home, also without Leasehold",
        "  lease handbook myjob\n  lease handbook myjob > HANDBOOK.md",
    )
    handbook.add_argument("run")
    tunnel = verb(
        "tunnel",
        "forward a port of the box (TensorBoard 6006, Jupyter 8888) and check that the panel sees the run",
        "  lease tunnel myjob 6006",
    )
    tunnel.add_argument("run")
    tunnel.add_argument("port", nargs="?", default="6006")
    tunnel.add_argument("--local-port", type=int, default=0, metavar="N", help="the port here (default: a free one)")
    tunnel.add_argument("--once", action="store_true", help="check and close at once")


def _resume(verb: AddVerb) -> None:
    resume = verb(
        "resume",
        "go on with a stopped or failed run, with the code and job that it began with, whatever the folder holds now",
        "  lease resume myjob\n  lease resume myjob-0a1b2c3d4e --detach",
    )
    resume.add_argument("run")
    resume.add_argument(
        "--detach", "-d", action="store_true", help="return once the run is seen alive over a second connection"
    )
    forget = verb(
        "forget",
        "take a run out of the lists; never while something of it could be lost or could bill; results stay",
        "  lease forget myjob-0a1b2c3d4e",
    )
    forget.add_argument("run")


def _adopt(verb: AddVerb) -> None:
    adopt = verb(
        "adopt",
        "find training that was started without Leasehold, and watch it: its results then come home under the gate",
        "  lease adopt gpu1                          lists what trains there\n"
        "  lease adopt gpu1 --pid 4711 --out /root/exp/out --artifact best.pt --artifact '*.json'",
    )
    adopt.add_argument("box")
    adopt.add_argument("--pid", type=int, default=0, metavar="N", help="this one; it is never started again by us")
    adopt.add_argument("--out", default="", metavar="DIR", help="where it writes, on the box (default: as guessed)")
    adopt.add_argument(
        "--artifact",
        action="append",
        default=[],
        metavar="PATTERN",
        help="must come home, below --out; repeatable",
    )
    adopt.add_argument("--log", default="", metavar="FILE", help="its log on the box (default: where its stdout goes)")
    adopt.add_argument("--name", default="", metavar="NAME", help="what the run is called (default: its script)")
    adopt.add_argument("--price", default="", metavar="1.98CNY/h", help="what the box costs")
    adopt.add_argument("--root", default="", metavar="DIR", help="our folder on that box")
    adopt.add_argument("--results", default="", metavar="DIR", help="where its results shall come home to")
    adopt.add_argument("--young", type=float, default=60.0, metavar="S", help="list none younger (default: 60)")


def _notify(verb: AddVerb) -> None:
    notify = verb(
        "notify",
        "where a box tells you what happens: failures, alarms, budget, the end, and a meter that still runs",
        "  lease notify add ntfy https://ntfy.sh/my-secret-topic\n"
        "  lease notify add telegram chat_id=12345 token=env:TG_TOKEN --name phone\n"
        "  lease notify add dingtalk             asks for its address and secret, unseen\n"
        "  lease notify add webhook - < address.txt   keeps it out of your shell's history\n"
        "  lease notify kinds\n  lease notify test\n  lease notify test phone --from gpu1",
    )
    notify.add_argument("action", choices=("add", "list", "remove", "test", "kinds"))
    notify.add_argument(
        "what",
        nargs="*",
        help="add: KIND [URL] [FIELD=VALUE …], where env:NAME is a value by name; remove: CHANNEL; test: [CHANNEL]",
    )
    notify.add_argument("--name", default="", metavar="NAME", help="add: what you will call it (default: its kind)")
    notify.add_argument("--from", dest="box", default="", metavar="BOX", help="test: send from this box, not from here")
    completion = verb("completion", "print shell completion", "  source <(lease completion bash)")
    completion.add_argument("shell", nargs="?", default="bash", choices=("bash", "zsh", "fish"))
    completion.add_argument("--runs", action="store_true", help=argparse.SUPPRESS)


def _signer(verb: AddVerb) -> None:
    signer = verb(
        "signer",
        "which ssh keys may approve a teardown by a signature; a person allows one on a terminal",
        "  lease signer add ~/.ssh/id_ed25519_sk.pub --verify-required\n"
        "  lease signer list\n"
        "  lease signer confirm SHA256:…         a line that something else put into allowed_signers\n"
        "  lease signer remove SHA256:…",
    )
    signer.add_argument("action", choices=("add", "confirm", "list", "remove"))
    signer.add_argument(
        "what", nargs="?", default="", help="add: file of a public key, or -; else its fingerprint, name or line number"
    )
    signer.add_argument("--name", default="", metavar="NAME", help="add: whose key it is (default: you)")
    signer.add_argument(
        "--verify-required", action="store_true", help="add: a signature counts only with a PIN or fingerprint checked"
    )
    signer.add_argument("--ca", action="store_true", help="add: the key of an authority that certifies keys")
