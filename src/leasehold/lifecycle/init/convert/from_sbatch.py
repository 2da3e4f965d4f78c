"""Convert a Slurm batch script: directives into keys, the script into setup, env and run."""

from __future__ import annotations

import re
from dataclasses import replace

from leasehold.lifecycle.init.text.shell_words import Line, assignment, first_word, word_spans, words

from .draft import Draft
from .sbatch_options import Option, read_directive, reason_for, walk_options
from .script import Script, split_installs, take_out_secrets
from .units import Cards, read_card, read_count, read_size, say_duration, slurm_seconds

_DIRECTIVE = re.compile(r"#SBATCH\s+(.*)")
_PROFILE = re.compile(
    r"(?:source|\.)\s+(?:~|\$HOME|/etc)/?[\w./-]*(?:bashrc|bash_profile|profile|modules?\.sh|init/\w+)\s*\Z"
)
_CONDA_HOOK = re.compile(r"\bconda\s+shell\.bash\s+hook\b")
_TO_SUBMIT_DIR = re.compile(r"cd\s+[\"']?\$\{?SLURM_SUBMIT_DIR\}?[\"']?\s*\Z")
_FIRST_HOST = re.compile(
    r"\$\(\s*scontrol\s+show\s+hostnames?\b[^()]*\|\s*head\b[^()]*\)|`scontrol\s+show\s+hostnames?\b[^`]*`"
)
_SLURMS_OWN = re.compile(r"(?:^|[\s;&|(`])(?P<word>scontrol|sbatch|squeue|sacct|scancel|salloc|sinfo)\s")
_FIRST_INDEX = re.compile(r"\d+")


def from_sbatch(text: str, source: str) -> Draft:
    """Carry a batch script over; report what has no counterpart, with its line."""
    draft = Draft("Slurm", source)
    options, body, first = _split(text, draft)
    known: dict[str, str] = {}
    for option in options:
        known[option.name] = option.value
        _take(option, draft)
    _count_cards(options, known, draft)
    _several_tasks(options, draft)
    script = _body(take_out_secrets(Script.starting(body, first), draft.report), draft)
    draft.setup, draft.run = split_installs(script)
    if draft.setup:
        draft.report.did(draft.setup.numbers[0], "leading installs -> setup")
    draft.finish(_variables(draft, known), "SLURM")
    return draft


def _split(text: str, draft: Draft) -> tuple[list[Option], str, int]:
    """Read the directives above the first command; sbatch itself reads no further."""
    options: list[Option] = []
    lines = text.split("\n")
    first = next(
        (at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), len(lines)
    )
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.match(line)
        if not found:
            continue
        if number > first:
            draft.report.left(
                number, line.strip()[:80], "it stands below the first command, where sbatch ignores it too"
            )
        elif found[1].startswith(("hetjob", "packjob")):
            draft.report.left(number, found[1], "a run has one box")
        else:
            options += read_directive(found[1], number)
    return options, "\n".join(lines[first:]), first + 1


def _take(option: Option, draft: Draft) -> None:
    report = draft.report
    match option.name:
        case "job-name":
            draft.name = option.value
            report.did(option.line, "job-name -> name")
        case "time":
            seconds = slurm_seconds(option.value)
            draft.expect = say_duration(seconds) if seconds else ""
            if seconds:
                report.did(option.line, f"time {option.value} -> expect {draft.expect}")
            else:
                report.left(option.line, str(option), "it sets no limit")
        case "tmp":
            draft.disk = read_size(option.value, "M")
            report.did(option.line, f"tmp {option.value} -> resources.disk {draft.disk}")
        case "requeue" | "no-requeue":
            draft.attempts = 3 if option.name == "requeue" else 1
            report.did(option.line, f"{option.name} -> attempts {draft.attempts}")
        case "export":
            _exported(option, draft)
        case "nodes" | "ntasks" | "ntasks-per-node" if option.value in ("1", "1-1"):
            report.did(option.line, f"{option.name} 1: a run has one box")
        case "gres" | "gpus" | "gpus-per-node" | "gpus-per-task":
            pass  # counted together, below
        case _:
            report.left(option.line, str(option), reason_for(option))


def _exported(option: Option, draft: Draft) -> None:
    for item in option.value.split(","):
        name, equals, value = item.partition("=")
        if equals:
            draft.report.take_variable(name, value, option.line)
        elif item.upper() not in ("ALL", "NONE", "NIL", ""):
            draft.report.take_variable(name, None, option.line)
        else:
            draft.report.left(
                option.line, str(option), "the box has its own environment; `env` and `secrets` add to it"
            )


def _count_cards(options: list[Option], known: dict[str, str], draft: Draft) -> None:
    """Count GPUs: gres and gpus-per-node are per node, gpus per job, gpus-per-task per task."""
    for option in options:
        if option.name not in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
            continue
        wish = _card_wish(option)
        if wish is None:
            draft.report.left(option.line, str(option), "it asks for no whole number of GPUs")
            continue
        word, count = wish
        if option.name == "gpus-per-task":
            tasks = known.get("ntasks-per-node") or known.get("ntasks") or "1"
            count *= int(tasks) if re.fullmatch(r"\d{1,2}", tasks) else 1
        name, memory = read_card(word) if word else ("", "")
        if word and not name:
            draft.report.left(option.line, f"gpu type {word}", "a name of that cluster; name the GPU in resources.gpu")
        if 1 <= count <= 64:
            draft.cards = Cards(name, count, memory)
            draft.report.did(option.line, f"{option} -> resources.gpu")


def _card_wish(option: Option) -> tuple[str, int] | None:
    """Parse gpu:a100:2, gpu:2, a100:2 or 2 as a type and a number."""
    for item in option.value.split(","):
        parts = item.removeprefix("gres/").split(":")
        if option.name == "gres":
            if parts[0] != "gpu":
                continue
            parts = parts[1:]
        if not parts or parts == [""]:
            return "", 1
        last = re.sub(r"\(.*\)\Z", "", parts[-1])
        count = read_count(last)
        if count is not None:
            return (parts[0] if len(parts) > 1 else ""), count
        if not last.isdigit():
            return last, 1
    return None


def _several_tasks(options: list[Option], draft: Draft) -> None:
    for option in options:
        if option.name == "array":
            indexes = _FIRST_INDEX.search(option.value)
            if indexes:
                draft.report.did(
                    option.line, f"SLURM_ARRAY_TASK_ID is {indexes[0]}, the first of {option.value}, if read"
                )


def _body(script: Script, draft: Draft) -> Script:
    """Convert the script; a line that moves elsewhere leaves an empty one, so that line numbers stay the same."""
    kept = []
    for line in script.logical():
        text = _line(_on_one_host(line, draft), draft)
        kept.append(text if text is not None else "\n" * line.text.count("\n"))
    return Script("\n".join(kept), script.numbers)


def _on_one_host(line: Line, draft: Draft) -> Line:
    """Treat this host as the first of the job's hosts; other Slurm commands have no Slurm to talk to."""
    text = _FIRST_HOST.sub("127.0.0.1", line.text)
    if text != line.text:
        draft.report.did(line.number, "the first host of the job -> 127.0.0.1")
    own = _SLURMS_OWN.search(re.sub(r"(?:^|\s)#.*", "", text))
    if own:
        draft.report.left(line.number, own["word"], "kept, but a rented box has no Slurm")
    return replace(line, text=text)


def _line(line: Line, draft: Draft) -> str | None:
    """Return a line as it belongs in `run`, or None when it moved elsewhere."""
    text, report = line.text.strip(), draft.report
    word = first_word(text)
    if not line.top:
        return _without_srun(line, draft)
    if word in ("module", "ml"):
        report.left(line.number, text[:120], "a rented box has no modules; install what it lacks in `setup`")
        return None
    if _PROFILE.match(text):
        report.left(line.number, text[:120], "that account's own profile is not on the box")
        return None
    if _TO_SUBMIT_DIR.match(text):
        report.did(line.number, "cd $SLURM_SUBMIT_DIR: a command starts in a copy of your folder")
        return None
    if _CONDA_HOOK.search(text):
        return _CONDA_HOOK.sub("conda shell.posix hook", line.text)
    if word == "export" and _moved_to_env(line, text, draft):
        return None
    return _without_srun(line, draft)


def _moved_to_env(line: Line, text: str, draft: Draft) -> bool:
    """Move an export to `env` when its values are plain; otherwise leave it in place."""
    pairs = [assignment(word) for word in words(text)[1:]]
    if not pairs or any(pair is None or pair[1] is None for pair in pairs):
        hidden = [pair for pair in pairs if pair and pair[0] in draft.report.secrets]
        return bool(pairs) and len(hidden) == len(pairs)
    for pair in pairs:
        if pair is not None:
            draft.report.take_variable(pair[0], pair[1], line.number)
    return True


def _without_srun(line: Line, draft: Draft) -> str:
    """Remove srun and its options from the front of a command."""
    found = re.match(r"(\s*(?:time\s+|exec\s+)?)srun\s+", line.text)
    if not found:
        return line.text
    spans = word_spans(line.text[found.end() :])
    taken = 0
    for option, count in walk_options([word for word, _ in spans], line.number):
        taken += count
        draft.report.left(line.number, f"srun {option}", reason_for(option))
    draft.report.did(line.number, "srun: its command runs by itself, once")
    if taken >= len(spans):
        return ""
    return found[1] + line.text[found.end() + spans[taken][1] :]


def _variables(draft: Draft, known: dict[str, str]) -> dict[str, str]:
    count = str(draft.cards.count if draft.cards else 0)
    index = _FIRST_INDEX.search(known.get("array", ""))
    cores = known.get("cpus-per-task", "")
    plain = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS", "SLURM_NPROCS"), "1")
    plain |= dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0")
    plain |= dict.fromkeys(("SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), count)
    number = "$(printf %s \"$LEASE_RUN\" | cksum | cut -d ' ' -f 1)"  # scripts do arithmetic with it
    plain |= dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID"), number)
    return plain | {
        "SLURM_JOB_NAME": '"$LEASE_RUN"',
        "SLURM_SUBMIT_DIR": '"$PWD"',
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_NODELIST": "localhost",
        "SLURM_TMPDIR": '"${TMPDIR:-/tmp}"',
        "SLURM_RESTART_COUNT": '"$([ "$LEASE_ATTEMPT" = 1 ] || echo $((LEASE_ATTEMPT - 1)))"',  # unset at first
        "SLURM_CPUS_PER_TASK": cores if cores.isdigit() else '"$(nproc)"',
        "SLURM_CPUS_ON_NODE": '"$(nproc)"',
        "SLURM_ARRAY_TASK_ID": index[0] if index else "0",
    }
