"""Search by symptom, in English and in Chinese, offline."""

from __future__ import annotations

import pytest

from leasehold.doctor.seek import search


@pytest.mark.parametrize(
    "words, wanted",
    [
        ("gpu out of memory", "U10"),
        ("disk full while saving a checkpoint", "U6"),
        ("process was killed without traceback", "U9"),
        ("my loss becomes nan", "P8"),
        ("port already in use", "D4"),
        ("wandb has no api key", "U35"),
        ("windows line endings in script", "U26"),
        ("host key changed", "SSH.T6"),
        ("cannot reach huggingface", "HF1"),
        ("shared memory too small bus error", "DP15"),
        ("显存不足", "U10"),
        ("磁盘满了", "U6"),
        ("损失变成 nan", "P8"),
        ("端口被占用", "D4"),
        ("共享内存不足", "DP15"),
        ("nccl 超时 卡住", "MN3"),
        ("驱动版本太旧", "U28"),
        ("进程消失 没有报错", "U3"),
        ("缺少模块", "PY1"),
    ],
)
def test_the_entry_is_among_the_first_three(words, wanted):
    assert wanted in [entry.id for entry, _ in search(words)[:3]]


def test_an_id_finds_itself():
    assert [entry.id for entry, _ in search("gen4")] == ["U26"]


def test_words_that_mean_nothing_find_nothing():
    assert search("zzzz qqqq") == []
