"""What fills a disk, sorted into units: real files, real links, real mounts. Runs under PyPy too."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from leasehold.caretaker.disk import walk as disk_walk
from leasehold.caretaker.disk.classes import cache_links, known_places
from leasehold.caretaker.disk.disk_survey import outermost
from leasehold.caretaker.disk.units import Unit
from leasehold.caretaker.disk.walk import Bounds, Walk

MIB = 1 << 20


def fill(path: Path, mib: float = 2.0, age_s: float = 7200.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(4096) * int(mib * 256))
    stamp(path, age_s)
    return path


def stamp(path: Path, age_s: float) -> None:
    moment = time.time() - age_s
    os.utime(str(path), (moment, moment))


def walk(top: Path, root: str = "/no/root", known: Optional[Dict[str, str]] = None, limit_s: float = 60.0) -> Walk:
    made = Walk(root, known or {}, Bounds(time.monotonic() + limit_s, 64 * MIB, 2000), lambda value: None)
    made.run(str(top))
    return made


def units(made: Walk) -> Dict[str, Unit]:
    return {os.path.basename(unit.path): unit for unit in made.tally.units()}


def kinds(made: Walk) -> Dict[str, str]:
    return {name: unit.kind for name, unit in units(made).items()}


# ---------------------------------------------------------------- checkpoints


def test_of_a_series_only_the_last_and_what_is_called_best_is_kept(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        fill(tmp_path / "run" / ("step_%d.pt" % step), age_s=10_000 - step)
    fill(tmp_path / "run" / "best.pt")
    fill(tmp_path / "run" / "last.pt")
    found = kinds(walk(tmp_path))
    assert {name: found[name] for name in sorted(found) if name.endswith(".pt")} == {
        "best.pt": "checkpoint.best",
        "last.pt": "checkpoint.last",
        "step_100.pt": "checkpoint.old",
        "step_200.pt": "checkpoint.old",
        "step_300.pt": "checkpoint.last",
    }


@pytest.mark.parametrize(
    "names",
    [
        ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],  # one model in two shards
        ["mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"],  # one step of two ranks
        ["epoch=1-val_loss=0.31.ckpt", "epoch=2-val_loss=0.35.ckpt"],  # kept for their quality, whichever that is
        ["unet.pt", "vae.pt"],
    ],
)
def test_numbers_that_are_no_steps_make_nothing_old(tmp_path: Path, names: List[str]) -> None:
    for name in names:
        fill(tmp_path / name)
    assert "checkpoint.old" not in kinds(walk(tmp_path)).values()


def test_a_checkpoint_that_a_link_leads_to_is_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        fill(tmp_path / ("epoch_%d.ckpt" % step), age_s=10_000 - step)
    (tmp_path / "chosen").symlink_to("epoch_1.ckpt")
    found = kinds(walk(tmp_path))
    assert found["epoch_1.ckpt"] == "checkpoint.last"
    assert found["epoch_2.ckpt"] == "checkpoint.old"


def test_the_trainers_own_word_for_the_best_folder_counts(tmp_path: Path) -> None:
    for step in (500, 1000, 1500):
        fill(tmp_path / ("checkpoint-%d" % step) / "model.safetensors", age_s=10_000 - step)
    state = tmp_path / "checkpoint-1500" / "trainer_state.json"
    state.write_text(json.dumps({"best_model_checkpoint": "/elsewhere/out/checkpoint-500"}))
    stamp(state, 100)
    found = kinds(walk(tmp_path))
    assert found["checkpoint-500"] == "checkpoint.best"
    assert found["checkpoint-1000"] == "checkpoint.old"
    assert found["checkpoint-1500"] == "checkpoint.last"


def test_small_files_with_the_names_of_checkpoints_are_none(tmp_path: Path) -> None:
    (tmp_path / "site.pth").write_text("import this\n")
    assert "checkpoint" not in " ".join(kinds(walk(tmp_path)).values())


# ---------------------------------------------------------------- caches and places


def test_caches_are_known_by_their_place_and_a_hub_falls_into_its_models(tmp_path: Path) -> None:
    fill(tmp_path / ".cache" / "pip" / "http" / "a")
    fill(tmp_path / ".cache" / "huggingface" / "hub" / "models--gpt2" / "blobs" / "x")
    fill(tmp_path / ".cache" / "huggingface" / "hub" / "models--bert" / "blobs" / "y")
    found = units(walk(tmp_path))
    assert found["pip"].kind == "cache.pip"
    assert found["models--gpt2"].kind == found["models--bert"].kind == "cache.huggingface"
    assert found["huggingface"].divided, "its models can go alone, so it does not go as a whole"
    assert found["models--gpt2"].frees_bytes >= 2 * MIB


def test_a_cache_that_is_a_link_is_counted_where_it_lies(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    fill(data / "hf" / "hub" / "models--gpt2" / "blobs" / "x")
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "huggingface").symlink_to(data / "hf")
    known = known_places({}, str(home))
    assert known[str(data / "hf")] == "cache.huggingface"
    (link,) = cache_links(str(home), known)
    assert (link["path"], link["real"]) == (str(home / ".cache" / "huggingface"), str(data / "hf"))
    assert units(walk(home, known=known)).get("huggingface") is None, "a link is not followed"
    assert kinds(walk(data, known=known))["models--gpt2"] == "cache.huggingface"


def test_a_variable_moves_a_cache(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "x")
    known = known_places({"TORCH_HOME": str(tmp_path / "elsewhere")}, "/no/home")
    assert known[str(tmp_path / "elsewhere")] == "cache.torch"


def test_our_own_folders_and_runs_are_told_apart(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root / "trees" / "aa" / "x.py")
    fill(root / "active" / "toy-1" / "out" / "main" / "step_1.pt")
    fill(root / "active" / "toy-1" / "out" / "main" / "step_2.pt")
    fill(root / "data" / "set.tar")
    found = kinds(walk(tmp_path, root=str(root)))
    assert (found["trees"], found["toy-1"], found["data"]) == ("ours.trees", "ours.run", "ours.data")
    assert "step_1.pt" not in found, "what a run keeps is the run's"


def test_installed_programs_are_one_thing(tmp_path: Path) -> None:
    fill(tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "torch" / "x.part")
    fill(tmp_path / "env" / "pyvenv.cfg")
    assert set(kinds(walk(tmp_path)).values()) <= {"environment", "folder"}


def test_trash_unfinished_files_and_core_dumps_are_seen(tmp_path: Path) -> None:
    fill(tmp_path / ".Trash-0" / "files" / "x")
    fill(tmp_path / "set.tar.part")
    core = fill(tmp_path / "core.123")
    core.write_bytes(b"\x7fELF" + bytes(12) + b"\x04\x00" + bytes(2 * MIB))
    fill(tmp_path / "core")  # a file of that name that is no dump
    found = kinds(walk(tmp_path))
    assert (found[".Trash-0"], found["set.tar.part"], found["core.123"]) == ("trash", "temp", "core")
    assert "core" not in found


def test_a_folder_of_many_small_images_is_an_inode_hog(tmp_path: Path) -> None:
    for number in range(600):
        path = tmp_path / "samples" / ("%04d.png" % number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    found = units(walk(tmp_path))["samples"]
    assert (found.kind, found.inodes) == ("images", 601)


# ---------------------------------------------------------------- sums, links, bounds


def test_no_byte_belongs_to_two_units(tmp_path: Path) -> None:
    fill(tmp_path / ".cache" / "pip" / "a", 3)
    fill(tmp_path / "out" / "step_1.pt", 2)
    fill(tmp_path / "out" / "step_2.pt", 2)
    fill(tmp_path / "notes" / "x", 1)
    made = walk(tmp_path)
    assert sum(unit.bytes for unit in made.tally.units()) == made.tally.bytes
    assert sum(total[0] for total in made.tally.totals.values()) == made.tally.bytes
    assert sum(total[1] for total in made.tally.totals.values()) == made.tally.entries


def test_what_has_another_name_elsewhere_frees_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "env" / "libtorch.so", 4)
    (tmp_path / ".cache" / "pip").mkdir(parents=True)
    os.link(str(tmp_path / "env" / "libtorch.so"), str(tmp_path / ".cache" / "pip" / "libtorch.so"))
    fill(tmp_path / ".cache" / "pip" / "own", 1)
    os.link(str(tmp_path / ".cache" / "pip" / "own"), str(tmp_path / ".cache" / "pip" / "twin"))
    found = units(walk(tmp_path))["pip"]
    assert MIB <= found.frees_bytes < 2 * MIB, "only what all its names lie in goes"


def test_links_are_not_followed_and_loops_end(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "big", 8)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "here" / "up").symlink_to(tmp_path)
    made = walk(tmp_path / "here")
    assert made.complete and made.tally.bytes < MIB


def test_when_the_time_is_up_that_is_said_and_nothing_half_counted_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_walk, "_LOOK_EVERY", 1)
    for number in range(20):
        fill(tmp_path / ".cache" / "pip" / str(number), 0.01)
    made = walk(tmp_path, limit_s=-1.0)
    assert not made.complete and made.stopped_at
    assert all(unit.partial or unit.kind == "folder" for unit in made.tally.units())


def test_a_folder_that_cannot_be_read_is_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    made = walk(tmp_path)
    assert (made.unread_count, made.unread) == (1, [str(tmp_path / "closed")])


def test_odd_names_are_told_as_they_are(tmp_path: Path, odd_name: str) -> None:
    fill(tmp_path / odd_name / ".cache" / "pip" / "x")
    (found,) = [unit for unit in walk(tmp_path).tally.units() if unit.kind == "cache.pip"]
    assert found.path == str(tmp_path / odd_name / ".cache" / "pip")


def test_each_place_is_walked_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    paths = [str(tmp_path / "a" / "b"), str(tmp_path / "a"), str(tmp_path / "ab"), "/no/such", "/proc"]
    assert outermost(paths) == ["/proc", str(tmp_path / "a"), str(tmp_path / "ab")]
