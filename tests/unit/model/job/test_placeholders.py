"""Placeholders in commands: what a real sh then sees, whatever quotes stand around them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.placeholders import NAMES, BadPlaceholder, escape, fill, fill_plain

ODD = '/tmp/a b/it\'s "$x" `y` *'
VALUES = {"LEASE_OUT": ODD, "LEASE_RUN": "toy-1", "LEASE_CELL": "main", "LEASE_ATTEMPT": "2"}


def heard(command: str, cwd: Path) -> str:
    """Run what became of a command with a real sh, and hear what it says."""
    done = subprocess.run(
        ["/bin/sh", "-c", fill(command)], env={"PATH": "/usr/bin:/bin", **VALUES}, cwd=cwd, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("printf '[%s]' {{out}}", f"[{ODD}]"),
        ("printf '[%s]' --to={{out}}/best.pt", f"[--to={ODD}/best.pt]"),
        ("printf '[%s]' \"{{out}}/best.pt\"", f"[{ODD}/best.pt]"),
        ("printf '[%s]' {{ out }}/{{run}}", f"[{ODD}/toy-1]"),
        ("printf '[%s]' \"$(printf %s {{out}})\"", f"[{ODD}]"),
        ('printf "[%s]" "$(printf %s "{{out}}")"', f"[{ODD}]"),
        ('printf "[%s]" "${NOT_SET:-{{out}}}"', f"[{ODD}]"),
        ("printf '[%s]' ${NOT_SET:-{{run}}}", "[toy-1]"),
        ("printf %s $(( ({{attempt}} + 1) * 2 ))", "6"),
        ("cat <<EOF\n{{out}} it's\nEOF\nprintf %s {{cell}}", f"{ODD} it's\nmain"),
        ("# don't mind {{out}} here\nprintf %s {{run}}", "toy-1"),
        ("printf %s it\\'s{{run}}", "it'stoy-1"),
        ("printf '%s' 'a' {{run}} 'b'", "atoy-1b"),
        ("case {{run}} in toy*) printf yes;; esac", "yes"),
        ("(printf %s {{run}}) | cat", "toy-1"),
        ("X={{out}} && printf %s \"$X\"", ODD),
        ("printf %s '{{{{out}}}}'", "{{out}}"),
        ("printf %s \"{{{{ name }}}}{{run}}\"", "{{ name }}toy-1"),
        ("printf %s '{\"a\":'{{{attempt}}}'}'", '{"a":{2}}'),
    ],
)  # fmt: skip
def test_a_real_shell_sees_the_value_as_one_word(command: str, said: str, tmp_path: Path) -> None:
    assert heard(command, tmp_path) == said


@pytest.mark.parametrize(
    "command",
    [
        "python train.py hydra.run.dir='${hydra:runtime.output_dir}' +x=${oc.env:HOME}",
        "docker ps --format '{{.Names}} {{json .}}'",
        "echo '{% for x in y %}{{ x|upper }}{{ a.b }}{% endfor %}' {{}} { { out } }",
        "awk '{{print $1}}' file; echo ${{ matrix.gpu }}",
        "echo 'a quote that never closes",
        "echo {{{{ }}}}",
    ],
)
def test_what_is_no_placeholder_stays_byte_for_byte(command: str) -> None:
    assert fill(command) == command


@pytest.mark.parametrize("command", ["echo '{{name}}' {{ x }}", 'sed "s/{{who}}/me/" f', "echo {{out}}"])
def test_an_escaped_command_is_filled_back_to_itself(command: str) -> None:
    assert fill(escape(command)) == command


@pytest.mark.parametrize(
    ("command", "seen", "hint"),
    [
        ("python t.py {{outt}}", "{{outt}} is not a placeholder", "did you mean {{out}}?"),
        ("echo a\npython t.py {{zzz}}", "(its line 2)", "known: out, run, cell, attempt"),
        ("echo '{{name}}'", "{{name}} is not a placeholder", "{{{{name}}}}"),
        ("python -c 'open(\"{{out}}\")'", "single quotes", "double quotes"),
        ("cat <<'EOF'\n{{out}}\nEOF", "single quotes", "LEASE_OUT"),
        ("echo `ls {{out}}`", "backticks", "$("),
        ("echo ${{out}}", "$ before it", "$LEASE_OUT"),
        ("echo {{out}} 'open", "a single quote that does not close", ""),
        ('echo "{{out}}', "a double quote that does not close", ""),
        ("echo $(ls {{out}}", "a bracket that does not close", ""),
    ],
)
def test_what_cannot_be_filled_is_said(command: str, seen: str, hint: str) -> None:
    with pytest.raises(BadPlaceholder) as caught:
        fill(command)
    assert seen in str(caught.value)
    assert hint in caught.value.hint


def test_a_job_file_complaint_names_file_line_key_and_spelling() -> None:
    text = "name: toy\nartifacts: [best.pt]\nrun: python t.py --to {{oot}}\n"
    with pytest.raises(UserError) as caught:
        parse_text(text, "lease.yaml")
    assert caught.value.message == "lease.yaml:3: run: {{oot}} is not a placeholder"
    assert "did you mean {{out}}?" in caught.value.hint


@pytest.mark.parametrize("key", ["run", "smoke", "setup"])
def test_every_command_is_filled(key: str) -> None:
    text = f"name: toy\nartifacts: [best.pt]\n{key}: python t.py {{{{out}}}}\n"
    job = parse_text(text if key == "run" else text + "run: x\n", "lease.yaml")
    assert getattr(job, key) == 'python t.py "${LEASE_OUT}"'


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('artifacts: ["{{out}}/best.pt"]', "leave {{out}}/ away"),
        ('artifacts: [a]\nscratch: ["{{out}}/tmp/**"]', "leave {{out}}/ away"),
        ('artifacts: [a]\ncheckpoint: {path: "{{out}}/last.pt"}', "leave {{out}}/ away"),
        ('artifacts: [a]\nenv: {CACHE: "{{out}}/cache"}', "CACHE={{out}}/cache python"),
    ],
)
def test_a_placeholder_where_no_shell_reads_is_refused_at_once(line: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_text(f"name: toy\nrun: x\n{line}\n", "lease.yaml")
    assert hint in caught.value.hint


def test_templates_in_env_stay_as_they_are() -> None:
    job = parse_text('name: t\nrun: x\nartifacts: [a]\nenv: {P: "Hi {{name}}", Q: "{{{{out}}}}"}\n', "x")
    assert job.env == {"P": "Hi {{name}}", "Q": "{{out}}"}
    assert fill_plain("{{{{who}}}}", "") == "{{{{who}}}}"


def test_the_same_words_stand_in_the_trainers_environment() -> None:
    from leasehold.caretaker.attempt import keeper

    source = Path(keeper.__file__).read_text()
    assert all(f'"{variable}"' in source for variable in NAMES.values())
