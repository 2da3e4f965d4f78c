"""What `lease ckpt inspect` and `lease run cadence` say, from files made here."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.checkpoint import Checkpointer
from leasehold.errors import UserError, VerifyError
from leasehold.gates.start.resuming import judge_checkpoint
from leasehold.kit.readers import Unreadable, read
from leasehold.kit.run.cadence import expected_loss, interval_s, mean_gap_s, whole_steps
from leasehold.lifecycle.confine.fork_client import Readers
from leasehold.lifecycle.confine.spawn import Conversation
from leasehold.lifecycle.results.checkpoint_cadence import CadenceWishes, reckon
from leasehold.lifecycle.results.inspect_checkpoint import inspect
from leasehold.model.job.job import CheckpointFacts
from leasehold.model.run.verdict import Outcome
from tests.unit.kit.readers.forge import (
    Member,
    Tensor,
    called,
    finished,
    mapping,
    named,
    npy,
    npy_header,
    number,
    safetensors,
    span,
    text,
    torch_zip,
    tuple_of,
    zip_bytes,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a checkpoint of ours."""
    monkeypatch.delenv("LEASE_OUT", raising=False)
    with Checkpointer(str(tmp_path / "ckpt"), say=lambda line: None) as ckpt:
        ckpt.restore(model={"w": [1.0]}, optimizer={"m": 0.5}, sampler={"at": 3})
        ckpt.step(0, metrics={"loss": 1.5})
    return tmp_path / "ckpt"


def test_a_whole_checkpoint_of_ours_misses_nothing(folder: Path) -> None:
    seen = inspect(folder)
    assert seen.path.endswith("step-0000000001.safetensors")
    assert not [finding.what for finding in seen.verdict.findings if finding.outcome is Outcome.REFUSED]
    assert "digest: every byte is as it was written" in seen.as_dict()["notes"]


def test_a_flipped_byte_is_found_at_home(folder: Path) -> None:
    path = next(folder.glob("step-*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(VerifyError, match="is damaged"):
        inspect(path)


def test_weights_alone_are_told_from_a_full_state(tmp_path: Path) -> None:
    path = tmp_path / "best.pt"
    path.write_bytes(torch_zip(finished(mapping({"model": mapping({"w": Tensor().pickle()}), "epoch": number(3)}))))
    refused = [f.what for f in inspect(path).verdict.findings if f.outcome is Outcome.REFUSED]
    assert [what.partition(":")[0] for what in refused] == ["no optimizer", "no random states", "no place in the data"]


def test_a_file_that_would_run_code_is_named_and_not_run(tmp_path: Path) -> None:
    path, canary = tmp_path / "evil.pt", tmp_path / "canary"
    attack = called("os.system", text(f"touch '{canary}'"))
    path.write_bytes(torch_zip(finished(mapping({"model": Tensor().pickle(), "x": attack}))))
    seen = inspect(path)
    assert any("needs code to load: os.system" in finding.what for finding in seen.verdict.findings)
    assert not canary.exists()


# An interpreter "with torch" that answers as the confined process of torch does.
STANDS_FOR_TORCH = """#!{python}
import json, sys
asked = json.load(sys.stdin)
print(json.dumps({{"confinement": ["rlimits"]}}))
for path in asked["paths"]:
    print(json.dumps({answer}))
"""


@pytest.fixture
def torch_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let LEASEHOLD_PYTHON name an interpreter whose torch says this of every file."""

    def say(said: str, by_policy: bool = False) -> None:
        program = tmp_path / "python-with-torch"
        answer = repr({"torch_load": said, "by_policy": by_policy})
        program.write_text(STANDS_FOR_TORCH.format(python=sys.executable, answer=answer))
        program.chmod(0o755)
        monkeypatch.setenv("LEASEHOLD_PYTHON", str(program))

    return say


def lease(*words: str, home: Path) -> str:
    """Run the command as a person does; return what it printed."""
    program = Path(sys.executable).with_name("lease")
    environment = {**os.environ, "LEASEHOLD_HOME": str(home)}
    done = subprocess.run([str(program), *words], env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def state_dict(folder: Path) -> Path:
    path = folder / "best.pt"
    path.write_bytes(torch_zip(finished(mapping({"fc.weight": Tensor().pickle(), "fc.bias": Tensor().pickle()}))))
    return path


def test_the_interpreter_that_leasehold_python_names_is_asked(tmp_path: Path, torch_says: Callable[..., None]) -> None:
    torch_says("ok")
    assert inspect(state_dict(tmp_path)).as_dict()["torch_load"] == "ok"


def test_refused_and_loads_are_never_said_together(tmp_path: Path, torch_says: Callable[..., None]) -> None:
    torch_says("refused: UnpicklingError: Unsupported global", by_policy=True)
    said = lease("ckpt", "inspect", str(state_dict(tmp_path)), home=tmp_path / "home")
    assert "refused: UnpicklingError" in said
    assert "loads" not in said.partition("numbers\n")[2]  # what follows the file's own path


def test_a_file_that_torch_cannot_load_does_not_load(tmp_path: Path, torch_says: Callable[..., None]) -> None:
    torch_says("refused: RuntimeError: PytorchStreamReader failed")
    with pytest.raises(VerifyError, match="does not load: .*PytorchStreamReader"):
        inspect(state_dict(tmp_path))


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    true = Readers.ask

    def ask(self: Readers, question: dict[str, object], wall_s: float, answers: int = 1) -> Conversation:
        asked.append(question["path"])
        return true(self, question, wall_s, answers)

    monkeypatch.setattr(Readers, "ask", ask)
    inspect(state_dict(tmp_path))
    assert len(asked) == 1


def test_a_bare_state_dict_is_the_model_s_weights(tmp_path: Path) -> None:
    findings = inspect(state_dict(tmp_path)).verdict.findings
    assert findings[0].outcome is Outcome.PASSED
    assert findings[0].what == "model weights: tensors by their names, such as fc.weight"


@pytest.mark.parametrize(("values", "seen"), [([1.0, 2.0], "finite: all arrays"), ([1.0, math.nan], "NOT FINITE: 1")])
def test_arrays_of_numpy_are_read_as_what_they_are(tmp_path: Path, values: list[float], seen: str) -> None:
    array = npy(struct.pack("<2f", *values), npy_header("'<f4'", "(2,)"))
    (tmp_path / "a.npz").write_bytes(zip_bytes([Member("w.npy", array)]))
    (tmp_path / "a.npy").write_bytes(array)
    for name, kind in (("a.npz", "npz"), ("a.npy", "npy")):
        found = inspect(tmp_path / name)
        assert found.load.reading["kind"] == kind
        assert any(finding.what.startswith(seen) for finding in found.verdict.findings)


def test_one_flipped_bit_of_the_schema_is_damage(folder: Path) -> None:
    path = next(folder.glob("step-*"))
    data = path.read_bytes()
    at = data.index(b"leasehold.checkpoint/1")
    for bit in range(8 * len(b"leasehold.checkpoint/1")):
        flipped = bytearray(data)
        flipped[at + bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(Unreadable):
            read(str(path), "checkpoint")


def test_a_folder_with_one_file_of_weights_is_read(tmp_path: Path) -> None:
    for name in ("model.safetensors", "diffusion_pytorch_model.safetensors"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        header = {"unet.w": span("F32", [2], 0, 8)}
        (folder / name).write_bytes(safetensors(header, struct.pack("<2f", 1.0, 2.0)))
        found = inspect(folder)
        assert (found.load.reading["kind"], found.load.reading["keys"]) == ("hf", ["unet"])
        assert found.load.reading["notes"][0] == f"all in {name}"


def test_an_index_of_diffusers_is_read(tmp_path: Path) -> None:
    stem = "diffusion_pytorch_model"
    header = {"w": span("F32", [2], 0, 8)}
    (tmp_path / f"{stem}-1.safetensors").write_bytes(safetensors(header, struct.pack("<2f", 1.0, 2.0)))
    index = {"metadata": {"total_size": 8}, "weight_map": {"w": f"{stem}-1.safetensors"}}
    (tmp_path / f"{stem}.safetensors.index.json").write_text(json.dumps(index))
    assert inspect(tmp_path).load.reading["notes"][0] == "1 shards, all there, sizes add up"


def test_tensors_without_data_print_no_long_number(tmp_path: Path) -> None:
    sizes = tuple_of(*[number(2**62)] * 40)
    meta = called("torch._utils._rebuild_meta_tensor_no_storage", named("torch.float32"), sizes, sizes, b"\x89")
    path = tmp_path / "meta.pt"
    path.write_bytes(torch_zip(finished(mapping({"w": meta}))))
    with pytest.raises(VerifyError) as caught:
        inspect(path)
    assert len(str(caught.value)) < 400


def test_what_is_not_there_or_no_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not there"):
        inspect(tmp_path / "none.pt")
    with pytest.raises(UserError, match="holds no checkpoint we know"):
        inspect(tmp_path)


@pytest.mark.parametrize(
    "keys",
    [
        ("model_state_dict", "optimizer_state_dict", "epoch", "rng_state", "sampler"),
        ("state_dict", "optimizer_states", "global_step", "rng_states", "dataloader"),
        ("net", "optim", "iteration", "random_state", "loader_state"),
    ],
)
def test_the_names_people_use_are_known(keys: tuple[str, ...]) -> None:
    verdict = judge_checkpoint("torch", keys, (), ("finite: all of 8 bytes",))
    assert not [finding.what for finding in verdict.findings if finding.outcome is Outcome.REFUSED]


def test_the_runbooks_example_gives_its_interval() -> None:
    assert round(interval_s(30, 3 * 3600)) == 805
    assert whole_steps(805, 2) == 402
    found = reckon(None, CheckpointFacts(), CadenceWishes(write="30s", gap="3h", step="2s", price="2USD/h"))
    assert (found.every_steps, found.every_s) == (402, 804)
    assert str(found.lost_per_day) == "3.58 USD"


def test_the_interval_of_young_and_daly_loses_least() -> None:
    best = interval_s(30, 10800)
    least = expected_loss(best, 30, 10800).share
    assert all(expected_loss(best * factor, 30, 10800).share > least for factor in (0.5, 0.9, 1.1, 2.0))


def test_measured_numbers_beat_the_job_file_and_yield_to_the_command_line(folder: Path) -> None:
    sessions = json.loads((folder / "sessions.json").read_text())
    sessions["sessions"][-1].update(cost_s=2.0, step_s=0.5, gap_s=7200.0)
    (folder / "sessions.json").write_text(json.dumps(sessions))
    facts = CheckpointFacts(write_s=99.0, step_s=9.0)
    found = reckon(folder, facts, CadenceWishes(step="1s"))
    assert (found.cost_s, found.step_s, found.gap_s) == (2.0, 1.0, 7200.0)
    assert found.sources == {"cost_s": "measured", "step_s": "stated", "gap_s": "measured"}


def test_nothing_known_is_said_and_not_made_up() -> None:
    with pytest.raises(UserError, match="nobody knows how long a checkpoint takes"):
        reckon(None, CheckpointFacts(), CadenceWishes())


def test_kills_shorten_the_gap_that_was_assumed() -> None:
    assert mean_gap_s(86400, 0, 0) == 86400
    assert mean_gap_s(86400, 3600, 4) == 18000


def test_other_libraries_files_are_read_by_their_ending(tmp_path: Path) -> None:
    for name, seen in (("plain.parquet", "NOT FINITE: 1 NaN and 1 infinite, in a, c"), ("little.gguf", "in h")):
        path = next((Path(__file__).parents[2] / "kit/readers/golden").rglob(name))
        verdict = inspect(path).verdict
        assert verdict.outcome is Outcome.REFUSED
        assert any(seen in finding.what for finding in verdict.findings), verdict.findings
    pickled = tmp_path / "state.pkl"
    pickled.write_bytes(b"\x80\x04\x8c\x05posix\x8c\x06system\x93.")
    assert any("needs code to load: posix.system" in finding.what for finding in inspect(pickled).verdict.findings)


def test_a_file_that_no_reader_knows_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(b"anything")
    with pytest.raises(VerifyError, match=r"no reader for \.pt2; as a checkpoint it does not load"):
        inspect(path)


RUNS_A_COMMAND = b"cposix\nsystem\n(Vtrue\ntR."


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", RUNS_A_COMMAND)


def packed(path: Path) -> None:
    member = tarfile.TarInfo("data.pkl")
    member.size = len(RUNS_A_COMMAND)
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(member, io.BytesIO(RUNS_A_COMMAND))


def tables(path: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "kit" / "readers" / "golden" / "hdf5" / "newest.h5", path)


@pytest.mark.parametrize(("name", "write"), [("a.zip", zipped), ("a.tar.gz", packed), ("a.h5", tables)])
def test_plain_data_is_not_said_of_what_was_not_looked_at(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    (code,) = (finding for finding in inspect(tmp_path / name).verdict.findings if "code" in finding.what)
    assert code.outcome is Outcome.UNKNOWN and "plain data" not in code.what, code
    assert "names no code in the parts that were read; not looked at: " in code.what


@pytest.mark.parametrize("name", ["optimizer.pt", "training_args.bin", "modeling_own.py"])
def test_a_folder_with_files_that_may_hold_code_is_not_plain_data(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(
        safetensors({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))
    )
    (tmp_path / "config.json").write_text("{}")
    said = "loads without running code: plain data only"
    assert said in [finding.what for finding in inspect(tmp_path).verdict.findings]
    (tmp_path / name).write_bytes(RUNS_A_COMMAND)
    (code,) = (finding for finding in inspect(tmp_path).verdict.findings if "code" in finding.what)
    assert code.outcome is Outcome.UNKNOWN and code.what.endswith(f"not looked at, beside the weights: {name}"), code


def test_plain_data_is_said_of_what_was_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"x": 1}))
    assert "names no code: plain data only" in [
        finding.what for finding in inspect(tmp_path / "a.pkl").verdict.findings
    ]


def test_a_nanogpt_like_checkpoint_has_its_step() -> None:
    said = judge_checkpoint("torch", ("model", "optimizer", "iter_num", "best_val_loss"), (), ())
    assert "step or epoch: iter_num" in [finding.what for finding in said.findings]
