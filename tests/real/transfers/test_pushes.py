"""What a push brings to a box behind a real sshd, and what it never touches there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ODD_NAMES
from tests.support import processes
from tests.support.lives import Life, check_trainers

pytestmark = pytest.mark.real_ssh

Begin = Callable[..., Life]


def identities(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Name every file of a folder with its inode, time and bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    facts = [(path, path.stat()) for path in files]
    return {str(path): (info.st_ino, info.st_mtime_ns, path.read_bytes()) for path, info in facts}


def test_a_second_push_changes_no_file_that_a_live_process_reads(life: Life) -> None:
    (life.project / "helper.py").write_text("LOSS = 1\n")
    first = life.run_to_mid_life()
    folder, [trainer] = life.run_folder, life.trainer()
    assert folder is not None
    blobs = identities(life.bed.root / "blobs")
    before = identities(folder / "work")
    assert any(path.endswith("helper.py") for path in before)
    (life.project / "helper.py").write_text("LOSS = 2\n")
    changed = (life.project / "train.py").read_text() + "\n# changed while the other one trains\n"
    (life.project / "train.py").write_text(changed)
    value = json.loads(life.job_file.read_text())
    value["env"]["SIDE"] = str(life.folder / "second side")
    (life.folder / "second side").mkdir()
    life.job_file.write_text(json.dumps(value))
    second = life.run("--alongside")
    assert second.wait() == 0, life.explain()
    assert len(list((life.bed.root / "trees").glob("*.list"))) == 2
    assert identities(folder / "work") == before
    assert blobs.items() <= identities(life.bed.root / "blobs").items()
    assert trainer in processes.snapshot(), "the first trainer did not live through it"
    life.release()
    assert first.wait() == 0, life.explain()
    check_trainers(life)


def test_a_trainer_that_writes_over_its_own_code_spoils_no_later_run(begin: Begin) -> None:
    spoil = "cp train.py copy.py; echo 'raise SystemExit(1)' > train.py; exec python3 -I -S copy.py"
    life = begin(job={"run": spoil})
    assert life.run().wait() == 0, life.explain()
    assert life.run("--again").wait() == 0, life.explain()


def test_links_inside_the_project_arrive_as_links_also_when_they_dangle(begin: Begin) -> None:
    script = (
        'printf \'{"file": "%s", "dangling": "%s", "folder": "%s"}\' "$(readlink to-file)" "$(readlink to-nothing)" '
        '"$(cat deep/to-folder/data.txt)" > "$LEASE_OUT/result.json"'
    )
    life = begin(job={"run": script, "artifacts": {"result.json": "json"}})
    (life.project / "deep").mkdir()
    (life.project / "real").mkdir()
    (life.project / "real" / "data.txt").write_text("through a link")
    (life.project / "to-file").symlink_to("train.py")
    (life.project / "to-nothing").symlink_to("not/here yet")
    (life.project / "deep" / "to-folder").symlink_to("../real")
    assert life.run().wait() == 0, life.explain()
    [result] = life.results().glob("export/*/cells/main/result.json")
    found = {"file": "train.py", "dangling": "not/here yet", "folder": "through a link"}
    assert json.loads(result.read_text()) == found


REFUSED: dict[str, Any] = {
    "absolute": ("link", "/etc/passwd", "code.unsafe_path"),
    "out-of-the-tree": ("link", "../outside", "code.unsafe_path"),
    "windows-line-ends": ("run me.sh", "#!/bin/sh\r\necho hi\r\n", "code.crlf"),
}


@pytest.mark.parametrize("name, content, code", list(REFUSED.values()), ids=list(REFUSED))
def test_what_would_not_work_there_is_refused_before_anything_travels(
    life: Life, name: str, content: str, code: str
) -> None:
    if name == "link":
        os.symlink(content, life.project / name)
    else:
        (life.project / name).write_bytes(content.encode())
    done = life.run()
    assert done.wait() == 2, life.explain()
    assert f"error[{code}]" in done.said and name in done.said
    assert not life.bed.root.exists()


def test_files_of_any_name_travel_and_the_same_code_travels_once(life: Life) -> None:
    for name in ODD_NAMES.values():
        (life.project / name).write_text(name)
    first = life.run()
    assert first.wait() == 0, life.explain()
    files = len(ODD_NAMES) + 1
    assert f"{files} of {files} files" in first.said
    again = life.run("--again")
    assert again.wait() == 0, life.explain()
    assert "files sent" not in again.said
