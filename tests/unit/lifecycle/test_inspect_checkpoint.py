"""What `lease ckpt inspect` and `lease cadence` say, from files made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leasehold.checkpoint import Checkpointer
from leasehold.errors import UserError, VerifyError
from leasehold.gates.resuming import judge_checkpoint
from leasehold.kit.cadence import expected_loss, interval_s, mean_gap_s, whole_steps
from leasehold.lifecycle.inspect_checkpoint import CadenceWishes, inspect, reckon
from leasehold.model.job import CheckpointFacts
from leasehold.model.verdict import Outcome
from tests.unit.readers.forge import Tensor, called, finished, mapping, number, text, torch_zip


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


def test_measured_numbers_come_before_the_job_file_and_after_the_command_line(folder: Path) -> None:
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
