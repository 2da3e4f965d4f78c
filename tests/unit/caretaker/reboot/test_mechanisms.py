"""Lines and units that start a run after a restart: real crontab, real systemd-analyze. Runs under PyPy too."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest

from leasehold.caretaker.reboot import mechanisms
from leasehold.caretaker.reboot.mechanisms import Hook, Refusal, install, remove, with_line, without

TAG = "0123456789abcdef"


def hook(*argv: str) -> Hook:
    return Hook(
        TAG, "toy-1", argv or ("/usr/bin/python3", "-I", "-S", "/root/x/__main__.py", "revive", "/root/x/toy-1")
    )


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"0 3 * * * backup\n", b"# mine\n\n@reboot a\n", b"no end of line", b"a\r\nb", b"\xff\xfe\n"]
)
def test_what_a_person_wrote_survives_byte_for_byte(text: bytes) -> None:
    once = with_line(text, "@reboot true", TAG)
    assert once.startswith(text) and once.endswith(b"\n")
    assert with_line(once, "@reboot true", TAG) == once, "a second time changes nothing"
    assert without(with_line(once, "@reboot other", "fedcba9876543210"), "fedcba9876543210") == once
    assert without(once, TAG) == text


def test_only_our_own_tag_is_taken_away() -> None:
    text = b"@reboot x # leasehold:0123456789abcdeff\n@reboot y # my leasehold:0123\n@reboot z\n"
    assert without(text, TAG) == text


@pytest.fixture
def crontab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a crontab command that keeps its table in a file and is as strict as the real one."""
    table = tmp_path / "table"
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "crontab"
    script.write_text(
        "#!/bin/sh\nt=%s\ncase \"$1\" in\n"
        "-l) [ -e \"$t\" ] || { echo 'no crontab for root' >&2; exit 1; }; cat \"$t\";;\n"
        "-r) rm \"$t\";;\n"
        "-) cat > \"$t.new\"; [ -z \"$(tail -c1 \"$t.new\")\" ] || { echo 'missing newline' >&2; exit 1; }\n"
        "mv \"$t.new\" \"$t\";;\n"
        "esac\n" % shlex.quote(str(table))
    )  # fmt: skip
    script.chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    monkeypatch.setattr(mechanisms, "_cron_runs", lambda: True)
    return table


def test_a_crontab_gains_one_line_and_loses_it(crontab: Path) -> None:
    crontab.write_bytes(b"# mine\n0 3 * * * backup %d\n")
    where = install("cron", hook())
    assert where.startswith("crontab: @reboot ")
    install("cron", hook())
    lines = crontab.read_bytes().splitlines()
    assert len(lines) == 3 and lines[2].endswith(b"# leasehold:" + TAG.encode())
    assert remove("cron", TAG) and not remove("cron", TAG)
    assert crontab.read_bytes() == b"# mine\n0 3 * * * backup %d\n"


def test_where_there_was_no_crontab_there_is_none_afterwards(crontab: Path) -> None:
    install("cron", hook())
    assert crontab.exists()
    remove("cron", TAG)
    assert not crontab.exists()


def test_without_a_daemon_the_way_is_closed(crontab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "_cron_runs", lambda: False)
    with pytest.raises(Refusal, match="no cron daemon"):
        install("cron", hook())
    assert not crontab.exists()


def test_without_the_command_the_way_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "_cron_runs", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="crontab is not installed"):
        install("cron", hook())


def test_the_line_runs_as_cron_runs_it(crontab: Path, tmp_path: Path, odd_name: str) -> None:
    place = tmp_path / odd_name.replace("\n", "") / "100%"
    place.mkdir(parents=True)
    entry = place / "entry"
    entry.write_text("import sys, os\nopen(sys.argv[2], 'w').write(repr(sorted(os.environ)))\n")
    asked = Hook(
        TAG, "toy", (shutil.which("python3") or "python3", "-I", "-S", str(entry), "revive", str(place / "ran"))
    )
    install("cron", asked)
    line = crontab.read_text().splitlines()[-1]
    command = line[len("@reboot ") :].replace("\\%", "%")  # what cron hands to the shell
    subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin", "HOME": "/"}, check=True, timeout=30)
    assert (place / "ran").exists()


def test_a_line_break_in_a_path_closes_every_way() -> None:
    with pytest.raises(Refusal, match="line break"):
        install("cron", hook("/usr/bin/python3", "/a\nb", "revive"))


# ---------------------------------------------------------------- systemd


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a loginctl that lingers and a systemctl that writes down what it was asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    asked = tmp_path / "asked"
    for name, script in (("loginctl", "echo Linger=yes"), ("systemctl", 'echo "$@" >> %s' % shlex.quote(str(asked)))):
        (folder / name).write_text("#!/bin/sh\n%s\n" % script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (folder, os.environ["PATH"]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return asked


def asked_of(systemd: Path) -> List[str]:
    return systemd.read_text().splitlines()


def test_a_unit_is_written_enabled_and_taken_away(systemd: Path) -> None:
    path = install("systemd", hook())
    assert asked_of(systemd) == ["--user daemon-reload", "--user enable leasehold-relaunch-%s.service" % TAG]
    assert "WantedBy=default.target" in Path(path).read_text()
    assert remove("systemd", TAG) and not os.path.exists(path)
    assert asked_of(systemd)[2] == "--user disable leasehold-relaunch-%s.service" % TAG
    assert not remove("systemd", TAG)


def test_without_lingering_the_way_is_closed(systemd: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "loginctl").write_text("#!/bin/sh\necho Linger=no\n")
    with pytest.raises(Refusal, match="enable-linger"):
        install("systemd", hook())
    assert not (tmp_path / "config").exists()


def test_a_unit_that_cannot_be_enabled_leaves_nothing(systemd: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho Failed to connect to bus; exit 1\n")
    with pytest.raises(Refusal, match="connect to bus"):
        install("systemd", hook())
    assert not list((tmp_path / "config" / "systemd" / "user").iterdir())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_itself_takes_the_unit(systemd: Path, tmp_path: Path) -> None:
    path = install("systemd", hook("/usr/bin/python3", "-I", "-S", '/root/a "b" $c %d \\e/__main__.py', "revive", "/r"))
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, timeout=30, check=False,
    )  # fmt: skip
    assert os.path.basename(path) not in checked.stdout.decode(), checked.stdout.decode()


# ---------------------------------------------------------------- a platform's start file


def test_a_start_file_is_made_and_gone_or_keeps_its_own_lines(tmp_path: Path) -> None:
    place = tmp_path / "onstart.sh"
    way = "onstart:%s" % place
    install(way, hook())
    assert place.read_bytes().startswith(b"#!/bin/bash\n") and os.access(str(place), os.X_OK)
    assert remove(way, TAG) and not place.exists()
    place.write_bytes(b"#!/bin/sh\necho mine")
    place.chmod(0o700)
    install(way, hook())
    assert remove(way, TAG)
    assert (place.read_bytes(), place.stat().st_mode & 0o777) == (b"#!/bin/sh\necho mine", 0o700)


def test_a_start_file_that_cannot_be_written_closes_the_way(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file"):
        install("onstart:%s/none/onstart.sh" % tmp_path, hook())


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(Refusal, match="not a known mechanism"):
        install("launchd", hook())
