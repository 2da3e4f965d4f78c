"""Which commands a shell text runs, and which of them break a rule: a table, and properties over made-up texts."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.facts.profiles import Shelf
from leasehold.gates.start.never_rules import _broken
from leasehold.gates.start.shell_reader import ShellReader

AUTODL = Shelf().load("autodl").environment.rules
LAMBDA = Shelf().load("lambda").environment.rules
GPUSHARE = Shelf().load("gpushare").environment.rules


def names(text: str, rules=AUTODL, **known: str) -> list[str]:
    return [rule.name.split(",")[0] for _, rule in _broken(text, rules, known)]


@pytest.mark.parametrize(
    "text",
    [
        "shutdown",
        "shutdown -h now",
        "/sbin/shutdown -h now",
        "/usr/sbin/poweroff",
        "'shutdown' now",
        'shut""down now',
        "\\shutdown now",
        "sudo shutdown",
        "sudo -n -u root shutdown",
        "sudo -nu root shutdown",
        "sudo --user root X=1 shutdown",
        "env A=b C=d shutdown",
        "env -u A shutdown",
        "/usr/bin/env -i shutdown",
        "env -S 'shutdown now'",
        "A=b shutdown",
        "nohup shutdown &",
        "nice -n 5 shutdown",
        "nice -10 shutdown",
        "timeout -k 5 10 shutdown",
        "timeout 10 bash -c shutdown",
        "exec shutdown",
        "command shutdown",
        "time shutdown",
        "setsid -f shutdown",
        "xargs -n 1 shutdown",
        "srun -J tea --ntasks 1 shutdown",
        "python train.py; shutdown",
        "python train.py;shutdown",
        "python train.py && shutdown",
        "python train.py || shutdown",
        "python train.py | shutdown",
        "python train.py & shutdown",
        "python train.py |& shutdown",
        "python train.py\nshutdown",
        "python train.py\r\nshutdown",
        "python train.py &&\\\n  shutdown",
        "(cd x; shutdown)",
        "{ shutdown; }",
        "! shutdown",
        "if true; then shutdown; fi",
        "while true; do\n  shutdown\ndone",
        "for x in a b; do shutdown; done",
        "case $1 in\n a) shutdown ;;\nesac",
        "case $1 in a) true;; b) shutdown;; esac",
        "f() { shutdown; }; f",
        "function f { shutdown; }\nf",
        "echo $(shutdown)",
        'echo "$(shutdown)"',
        'echo "a `shutdown` b"',
        "cat <(shutdown)",
        "bash -c 'shutdown -h now'",
        "bash -lc 'python train.py; shutdown'",
        "bash -o pipefail -euxc 'shutdown'",
        "sh -c \"bash -c 'sudo shutdown'\"",
        "su root -c shutdown",
        "eval 'shutdown now'",
        "trap 'shutdown -h now' EXIT",
        "bash <<EOF\nshutdown\nEOF",
        "python train.py > log 2>&1; shutdown",
        ">log shutdown",
        "python train.py &> log; shutdown",
        "CMD=shutdown; $CMD now",
        "export CMD=shutdown\n${CMD} now",
        "${CMD:-shutdown} now",
        "systemctl poweroff",
        "sudo systemctl --no-wall poweroff",
        "init 0",
        "$HOME/bin/shutdown",
        "conda run -n base shutdown",
        "[[ -f done ]] && shutdown",
        "test -f done && shutdown",
    ],
)
def test_a_shutdown_is_found(text: str) -> None:
    assert names(text) == ["shutdown"]


@pytest.mark.parametrize(
    "text",
    [
        "echo shutdown",
        "echo 'python train.py; shutdown'",
        'echo "done; shutdown now"',
        "python shutdown_test.py",
        "python shutdown.py --halt",
        "python -m tests.shutdown",
        "./shutdown",
        "tools/halt --now",
        "bash shutdown.sh",
        "bash run.sh -c shutdown",
        "python -c 'shutdown'",
        "python train.py --then shutdown",
        "python train.py # shutdown",
        "# shutdown\npython train.py",
        "cat <<EOF > note.txt\nshutdown\nEOF",
        "cat <<'EOF'\nshutdown\nEOF\npython train.py",
        "python train.py > shutdown",
        "python train.py 2> halt",
        "grep shutdown log.txt",
        "ARGS=(shutdown halt); echo ${ARGS[@]}",
        "X=shutdown python train.py",
        "MODE=shutdown",
        "for x in shutdown halt; do echo $x; done",
        "case $1 in\n start) true ;;\n shutdown) true ;;\nesac",
        "case $1 in shutdown) true;; esac",
        "shutdown() { echo bye; }; shutdown",
        "command -v shutdown",
        "which shutdown",
        "shutdown -c",
        "shutdown --help",
        "[[ $x == y && shutdown == z ]]",
        "[[ $x < shutdown || ( halt > y ) ]] && true",
        "sudo -u shutdown python train.py",
        "timeout -s halt 10 python train.py",
        "srun --job-name shutdown python train.py",
        "echo $((shutdown + 1))",
        "pip install shutdown",
        "git commit -m 'never shutdown; halt'",
        "systemctl status poweroff.target",
        "echo \\; shutdown",
        "true ${X:-;} shutdown",
        "",
        "   \n\t",
        "'",
        '"$(',
        "${",
        "<<",
        "(((",
        ")",
        "case",
        "function",
        ";;",
        "`",
    ],
)
def test_the_word_alone_is_no_command(text: str) -> None:
    assert names(text) == []


@pytest.mark.parametrize(
    "text, rules, broken",
    [
        ("conda create -n x python=3.10", AUTODL, ["conda create"]),
        ("conda create --clone base -n x", AUTODL, ["conda create", "a clone of the base environment (16 GB)"]),
        ("~/miniconda3/bin/conda -q create -y -n x", AUTODL, ["conda create"]),
        ("conda env create -f env.yml", AUTODL, ["conda create"]),
        ("mamba env create -f env.yml", AUTODL, ["conda create"]),
        ("conda install create", AUTODL, []),
        ("conda run -n create python train.py", AUTODL, []),
        ("conda env list", AUTODL, []),
        ("conda activate create", AUTODL, []),
        ("conda create --dry-run -n x", AUTODL, []),
        ("pip install 'torch==2.1' numpy", LAMBDA, ["pip install torch over the Stack"]),
        ("pip3.11 install --index-url https://x torch", LAMBDA, ["pip install torch over the Stack"]),
        ("python3 -m pip install torch[opt]", LAMBDA, ["pip install torch over the Stack"]),
        ("pip install torchvision>=0.1", LAMBDA, ["pip install torch over the Stack"]),  # a redirection, to the shell
        ("pip --proxy http://x install 'torchvision>=0.1'", LAMBDA, ["pip install torch over the Stack"]),
        ("uv pip install torch", LAMBDA, ["pip install torch over the Stack"]),
        ("pip install torch-geometric pytorch-lightning torchmetrics", LAMBDA, []),
        ("pip uninstall -y torch", LAMBDA, []),
        ("venv/bin/pip install torch", LAMBDA, []),
        ("pip install -r requirements.txt", LAMBDA, []),
        ("sudo apt-get -y dist-upgrade", LAMBDA, ["apt full-upgrade"]),
        ("DEBIAN_FRONTEND=noninteractive apt full-upgrade -y", LAMBDA, ["apt full-upgrade"]),
        ("apt-get upgrade -y && apt install full-upgrade-tool", LAMBDA, []),
        ("conda create -n x", GPUSHARE, ["an environment below /root"]),
        ("conda create --prefix=/hy-netdisk/x", GPUSHARE, []),
        ("conda create -p /hy-netdisk/x", GPUSHARE, []),
    ],
)
def test_sub_commands_and_further_words(text: str, rules, broken: list[str]) -> None:
    assert names(text, rules) == broken


def test_a_variable_of_the_job_is_filled_in() -> None:
    assert names("$LAST", LAST="shutdown now") == ["shutdown"]
    assert names('"$LAST"', LAST="shutdown now") == []  # one word, and no such program
    assert names('sh -c "$LAST"', LAST="shutdown now") == ["shutdown"]


def test_what_only_the_shell_knows_is_no_match() -> None:
    assert names("$UNKNOWN now") == []
    assert names("$(cat what) -h now") == []


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab \t\n;&|()<>{}[]$'\"`\\#=!-cde", max_size=60))
def test_any_text_is_read_to_its_end(text: str) -> None:
    for words in ShellReader(text).read():
        assert words and all(isinstance(word, str) for word in words)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=12).filter(lambda word: "\0" not in word), min_size=1, max_size=5))
def test_quoted_arguments_are_never_commands(arguments: list[str]) -> None:
    text = "echo " + " ".join(map(shlex.quote, arguments))
    assert ShellReader(text).read() == [("echo", *arguments)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["true", "echo 'a; b'", "python x.py > log 2>&1", "A=1 make -j", "(cd x)"]), max_size=3),
    st.sampled_from([";", "&&", "||", "|", "\n", " & "]),
    st.sampled_from(["{}", "sudo {}", "env A=b {}", "bash -c '{}'", "( {} )", "if true; then {}; fi", "echo $({})"]),
)
def test_a_command_is_found_wherever_it_stands(before: list[str], operator: str, shape: str) -> None:
    text = operator.join([*before, shape.format("/sbin/shutdown -h now")])
    assert names(text) == ["shutdown"]
