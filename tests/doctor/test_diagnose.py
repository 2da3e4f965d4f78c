"""From logs, exit codes, states and readings to a finding: the order of evidence, and what may be retried."""

from __future__ import annotations

import pytest

from leasehold.doctor.diagnose import diagnose
from leasehold.doctor.finding import ACTIONS
from leasehold.doctor.reading import rank_of, read_log, read_stream
from leasehold.facts.ailments import all_ailments
from leasehold.kit.failure.catalogue import shipped
from leasehold.kit.failure.evidence import Context, from_readings
from tests.doctor.excerpts import diagnosed

BOOK = shipped()
FULL = "OSError: [Errno 28] No space left on device\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB"
TIMEOUT = (
    "[rank{r}]:[E626 06:24:44.90 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
)


def ids(text, **known):
    return [finding.id for finding in diagnosed(BOOK, text, Context(**known)).findings]


def test_evidence_nearest_to_the_hardware_comes_first():
    text = (
        "wandb.errors.CommError: Error communicating with wandb process, exiting...\n"
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n"
        f"{OOM}\n{FULL}"
        "Out of memory: Killed process 7899 (python) total-vm:26184840kB\n"
        "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus\n"
    )
    assert ids(text) == ["U22", "U9", "U6", "U10", "O3", "WB1"]


def test_a_bare_traceback_is_said_only_when_nothing_better_is():
    trace = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n'
    assert ids(trace + "MyError: it broke\n") == ["PY0"]
    assert ids(trace + "KeyError: 'lr'\n") == ["PY7"]
    assert ids(trace + FULL) == ["U6"]


def test_an_exception_that_the_run_outlived_is_not_a_finding():
    trace = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: bad sample\n'
    assert ids(trace + "Epoch 4: loss 0.12\n") == []


@pytest.mark.parametrize(
    "known, wanted",
    [
        ({}, "U6"),
        ({"inodes_used": 0.99, "disk_used": 0.4}, "U7"),
        ({"inodes_used": 0.99, "disk_used": 0.4, "platform": "autodl"}, "AD4"),
        ({"overlay_used": 0.99, "platform": "runpod"}, "RP11"),
        ({"platform": "vastai"}, "VAST10"),
    ],
)
def test_no_space_means_what_the_readings_and_the_platform_say(known, wanted):
    assert ids(FULL, **known)[0] == wanted


def test_a_driver_that_is_too_old_is_named_by_its_platform():
    line = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n"
    assert [ids(line, platform=where)[0] for where in ("", "paperspace", "vastai")] == ["U28", "PS11", "VAST5"]


def test_memory_in_use_before_the_start_means_somebody_else():
    assert ids(OOM + "\n", vram_used_before=0.6)[0] == "U11"


def test_a_kill_without_an_oom_count_is_not_called_out_of_memory():
    assert ids("Killed\n") == ["U9"]
    assert diagnosed(BOOK, "Killed\n").findings[0].confidence == "likely"
    assert ids("Killed\n", oom_kills=2) == ["U9"]
    assert ids("Killed\n", oom_kills=0) == ["U3"]
    assert ids("Killed\n", oom_kills=0, uptime_s=60, age_s=7200) == ["GEN6"]


@pytest.mark.parametrize(
    "code, wanted", [(137, "U9"), (-9, "U9"), (139, "U45"), (143, "SPOT5"), (127, "U46"), (135, "DP15")]
)
def test_an_exit_code_speaks_when_the_log_does_not(code, wanted):
    assert ids("epoch 1\n", exit_code=code) == [wanted]
    assert ids(FULL, exit_code=code) == ["U6"]


def test_exit_code_zero_quiets_what_the_run_outlived():
    text = "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0\n"
    assert ids(text) == ["DP4"]
    assert ids(text, exit_code=0) == []
    assert ids("loss: nan\n", exit_code=0) == ["P8"]


@pytest.mark.parametrize(
    "state, wanted",
    [
        ("OUT_OF_MEMORY", "SLURM4"),
        ("TIMEOUT", "SL1"),
        ("PREEMPTED", "SL2"),
        ("NODE_FAIL", "SL3"),
        ("OOMKilled", "K8S7"),
        ("Evicted", "K8S5"),
        ("ImagePullBackOff", "K8S3"),
        ("0/4 nodes are available: 4 Insufficient nvidia.com/gpu.", "K8S1"),
    ],
)
def test_scheduler_states_are_read(state, wanted):
    assert wanted in ids("", states=(state,))


def test_a_platform_s_own_state_means_nothing_elsewhere():
    assert ids("", states=("offline",)) == []
    assert ids("", states=("offline",), platform="vastai") == ["VAST7"]


def test_a_variant_of_a_platform_fails_as_its_family_does():
    line = "OSError: [Errno 28] No space left on device"
    full = {"inodes_used": 1.0, "disk_used": 0.5}
    assert [ids(line, platform=where, **full)[0] for where in ("autodl", "autodl-pro", "slurm")] == ["AD4", "AD4", "U7"]


def test_the_first_failing_rank_is_the_cause_of_a_time_out():
    slow = read_stream(BOOK, "rank_0.log", iter([TIMEOUT.format(r=0).encode()]), 0)
    broken = b"2025-06-26 06:14:40,1 step 5\nRuntimeError: stack expects each tensor to be equal size\n"
    first = read_stream(BOOK, "rank_3.log", iter([broken]), 3)
    seen = diagnose(BOOK, [slow, first], Context())
    assert [finding.id for finding in seen.findings] == ["DP4", "MN3"]
    assert "rank 3 failed first" in seen.findings[0].note
    assert seen.retry is False


def test_a_time_out_alone_may_be_tried_once_more():
    seen = diagnosed(BOOK, TIMEOUT.format(r=0) + TIMEOUT.format(r=1))
    assert [finding.id for finding in seen.findings] == ["MN3"]
    assert seen.findings[0].retry is True
    assert seen.findings[0].evidence[0].count == 2


def test_several_ranks_that_failed_are_ordered_by_the_time_they_wrote():
    early = b"2025-06-26 06:14:00,1 x\nKeyError: 'a'\n"
    texts = {
        5: b"2025-06-26 06:20:00,1 x\nRuntimeError: Function 'MulBackward0' returned nan values in its 1th output.\n",
        2: b"2025-06-26 06:10:00,1 x\nloss: nan\n",
    }
    logs = [read_stream(BOOK, f"rank_{rank}.log", iter([text]), rank) for rank, text in texts.items()]
    logs.append(read_stream(BOOK, "rank_0.log", iter([early + TIMEOUT.format(r=0).encode()]), 0))
    seen = diagnose(BOOK, logs, Context())
    assert "MN3" in [finding.id for finding in seen.findings]
    assert seen.findings[0].evidence[0].rank in (2, 5)


def test_no_real_bug_is_retried():
    for ailment in all_ailments().values():
        retry = ACTIONS[ailment.klass][0]
        assert not (ailment.klass in ("bug", "hardware", "disk-full") and retry), ailment.id


def test_commands_carry_this_run_s_paths_and_numbers(tmp_path):
    log = tmp_path / "my run" / "train.log"
    log.parent.mkdir()
    log.write_text(
        "RuntimeError: failed to listen on any local network address. port: 29511, name: EADDRINUSE\n" + FULL
    )
    found = {finding.id: finding for finding in diagnose(BOOK, [read_log(BOOK, log)], Context()).findings}
    assert "ss -ltnp 'sport = :29511'" in found["D4"].commands
    assert any(f"df -h '{log.parent}'" in command for command in found["U6"].commands)


def test_a_command_whose_value_is_unknown_is_left_out():
    (finding,) = diagnosed(BOOK, "ModuleNotFoundError: No module named\n").findings
    assert finding.id == "PY1"
    assert finding.commands == ()


def test_a_hostile_log_cannot_make_a_command_of_its_own():
    text = "ModuleNotFoundError: No module named 'x'; rm -rf ~'\n"
    (finding,) = diagnosed(BOOK, text).findings
    assert finding.commands == ("python -m pip install x",)


def test_escapes_in_a_log_do_not_reach_the_evidence():
    (finding,) = diagnosed(
        BOOK, "\x1b]0;owned\x07\x1b[31mOSError: [Errno 28] No space left on device\x1b[0m\n"
    ).findings
    assert "\x1b" not in finding.evidence[0].text


def test_json_has_what_scripts_read():
    value = diagnosed(BOOK, FULL).as_dict()
    first = value["findings"][0]
    assert {"id", "class", "retry", "evidence", "cause", "fix", "commands", "source"} <= first.keys()
    assert first["evidence"][0]["line"] == 1
    assert value["retry"] is False


def test_ranks_are_told_from_names(tmp_path):
    names = {"rank_3.log": 3, "train-rank12.err": 12, "node-2.out": 2, "4/stderr.log": 4, "train.log": None}
    for name, wanted in names.items():
        assert rank_of(tmp_path / name) == wanted


def test_readings_become_shares():
    disk = {"path": "/w", "mount": "/w", "total_bytes": 100, "free_bytes": 1, "total_inodes": 10, "free_inodes": 5}
    card = {"memory_used_bytes": 30, "memory_total_bytes": 40}
    seen = from_readings({"disks": [disk], "gpus": [card]}, platform="local")
    assert (seen.disk_used, seen.inodes_used, seen.vram_used_before) == (0.99, 0.5, 0.75)
    assert from_readings({}).disk_used is None


def test_a_compressed_log_is_read(tmp_path):
    import gzip

    path = tmp_path / "old.log.gz"
    path.write_bytes(gzip.compress(FULL.encode()))
    assert read_log(BOOK, path).scan.hits
