"""The table of commands: every row leads somewhere, old words still work, and a command loads no other's modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.shells.cli.main import main, parse, parser_of
from leasehold.shells.cli.table import COMMANDS, GROUPS, UNDER, find, overview, under

_NAMES = [command.name for command in COMMANDS]
_WIDTH = 100
_COUNT = """
import sys
from leasehold.__main__ import main
sys.argv[1:] = {words!r}
code = main()
loaded = [name for name in sys.modules if name.partition(".")[0] == "leasehold"]
print("\\n", code, len(loaded), *sorted(loaded))
"""


# ---------------------------------------------------------------- the table


@pytest.mark.parametrize("name", _NAMES)
def test_every_command_has_its_parser_and_its_function(name: str) -> None:
    command, rest = find(name.split())
    assert command is not None and (command.name, rest) == (name, [])
    text = parser_of(command).format_help()
    assert f"usage: lease {name} " in text
    assert command.is_noun or callable(command.run_function())


def test_no_name_stands_twice() -> None:
    words = [*_NAMES, *(command.old for command in COMMANDS if command.old)]
    assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize("name", _NAMES)
def test_descriptions_and_examples_are_not_too_wide(name: str) -> None:
    command, _ = find(name.split())
    assert command is not None
    parser = parser_of(command)
    texts = f"{parser.description}\n{parser.epilog}".splitlines()
    assert [line for line in texts if len(line) > _WIDTH + 10] == []


@pytest.mark.parametrize(("name", "old"), [(command.name, command.old) for command in COMMANDS if command.old])
def test_an_older_word_is_the_same_command(name: str, old: str) -> None:
    assert find([old, "x"]) == find([*name.split(), "x"])
    assert f"\n  {old} " not in overview()


def test_a_job_file_is_run_even_if_it_is_called_like_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse(["run", "cadence"])[0].name == "run cadence"
    (tmp_path / "fetch").mkdir()  # a folder is no job file
    assert parse(["run", "fetch", "--on", "gpu1"])[0].name == "run fetch"
    (tmp_path / "cadence").write_text("name: toy\n")
    command, args = parse(["run", "cadence", "--detach"])
    assert (command.name, args.job, args.detach) == ("run", "cadence", True)


def test_what_follows_two_dashes_is_not_read() -> None:
    assert parse(["exec", "myjob", "--", "python", "--json"])[1].words == ["python", "--json"]
    assert parse(["ssh", "gpu1", "ls", "--", "-l"])[1].words == ["ls", "-l"]


# ---------------------------------------------------------------- help


def test_the_help_lists_every_command_once_in_its_group() -> None:
    text = overview()
    places = [text.index(f"\n{group}:\n") for group in GROUPS]
    assert places == sorted(places)
    for command in COMMANDS:
        assert text.count(f"\n  {command.name:<10}  {command.summary}\n") == (command.group != UNDER)
    assert [line for line in text.splitlines() if len(line) > _WIDTH] == []
    assert all(len(command.summary) < 66 for command in COMMANDS), "a line of the list fits into 80 columns"


def test_a_noun_lists_its_commands() -> None:
    for noun in ("run", "box"):
        command, _ = find([noun])
        assert command is not None
        text = parser_of(command).format_help()
        assert all(f"\n  {one.name.split()[1]:<10}  {one.summary}\n" in text + "\n" for one in under(noun))


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["--he"]])
def test_help_needs_no_parser(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out == overview()


@pytest.mark.parametrize("words", [["--version"], ["--ver"]])
def test_the_version_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("lease ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["statsu"], "lease: error: no command 'statsu'; did you mean lease status?"),
        (["shwo"], "lease: error: no command 'shwo'; did you mean lease show?"),
        (["prune"], "lease: error: no command 'prune'; did you mean lease box prune?"),
        (["box", "rebot"], "lease box: error: no command 'rebot'; did you mean lease box reboot?"),
        (["frobnicate"], "lease: error: no command 'frobnicate'\n"),
        (["--frobnicate"], "lease: error: unrecognized argument '--frobnicate'\n"),
        (["box"], "lease box: error: which command? add, list"),
        (["box", "--frobnicate"], "lease box: error: unrecognized arguments: --frobnicate"),
        (["run", "fetch"], "lease run fetch: error: the following arguments are required: --on"),
    ],
)
def test_a_wrong_command_line_says_what_may_have_been_meant(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert said in capsys.readouterr().err


# ---------------------------------------------------------------- start-up


def _loaded(words: list[str], folder: Path) -> list[str]:
    environment = {"PYTHONPATH": ":".join(sys.path), "LEASEHOLD_HOME": str(folder / "home"), "HOME": str(folder)}
    (folder / "train.py").write_text("import torch\n")
    (folder / "settings.yaml").write_text("lr: 1\n")
    done = subprocess.run(
        [sys.executable, "-S", "-c", _COUNT.format(words=words)],
        env=environment, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, count, *names = done.stdout.splitlines()[-1].split()
    assert (code, int(count)) == ("0", len(names))
    return names


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["--help"], 11),
        (["--version"], 11),
        (["lint", "."], 60),
        (["status"], 62),
        (["box", "list"], 68),
        (["notify", "kinds"], 58),
        (["platforms"], 95),
        (["completion", "bash"], 52),
        (["signer", "list"], 96),
        (["run", "cadence", "--write", "10s"], 66),
        (["ckpt", "inspect", "settings.yaml"], 100),
    ],
)
def test_a_command_loads_no_more_modules_than_it_needs(words: list[str], most: int, tmp_path: Path) -> None:
    names = _loaded(words, tmp_path)
    assert len(names) <= most, names


def test_looking_up_a_box_loads_only_what_calls_it(tmp_path: Path) -> None:
    _loaded(["box", "add", "here", "local", "--no-contact"], tmp_path)
    names = _loaded(["box", "show", "here"], tmp_path)
    assert len(names) <= 130, names
    assert not {name for name in names if ".lifecycle.run." in name or ".lifecycle.launch." in name}


def test_a_command_loads_no_other_command(tmp_path: Path) -> None:
    for words, own in ((["lint", "."], "doctor"), (["status"], "status"), (["box", "list"], "box")):
        names = _loaded(words, tmp_path)
        room = "leasehold.shells.cli."
        assert [name for name in names if name.startswith(f"{room}commands.")] == [f"{room}commands.{own}"]
        assert [name for name in names if name.startswith(f"{room}parsers.")] == [f"{room}parsers.{own}_parser"]
