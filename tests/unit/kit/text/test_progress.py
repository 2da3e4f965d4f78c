"""Progress read from real-looking logs: what moves it, and what must not."""

from __future__ import annotations

import math
import time
from typing import Any, Dict, List, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.kit.text.progress import LossHistory, Progress, ProgressReader


def read(text: str, pattern: str = "auto") -> Progress:
    reader = ProgressReader(pattern)
    reader.feed(text, at=1.0)
    return reader.now


def said(progress: Progress) -> Dict[str, Any]:
    """What is known, without times."""
    known = progress._asdict()
    del known["seen_at"], known["eta_of"], known["metrics"]
    return {name: value for name, value in known.items() if value not in (None, 0)}


def bar(step: int, total: int, label: str = "", tail: str = "") -> str:
    percent = 100 * step // total
    filled = "█" * (percent // 10)
    left = (total - step) // 10
    return "\r%s%3d%%|%-10s| %d/%d [00:30<%02d:%02d, 10.00it/s%s]" % (
        label,
        percent,
        filled,
        step,
        total,
        left // 60,
        left % 60,
        tail,
    )


MEGATRON = (
    " iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 86545.2 |"
    " learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 |"
    " grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
FAIRSEQ = (
    "2020-05-01 10:00:00 | INFO | train_inner | epoch 002:    100 / 5000 loss=8.2, nll_loss=7.9, ppl=240.1, wps=9000,"
    " ups=2.5, wpb=3600, bsz=120, num_updates=5100, lr=1e-05, gnorm=2.1, loss_scale=128, train_wall=40, wall=45\n"
)
KERAS_3 = (
    "Epoch 3/10\n\x1b[1m 450/1000\x1b[0m \x1b[32m━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━\x1b[0m \x1b[1m12s\x1b[0m 20ms/step"
    " - accuracy: 0.9123 - loss: 0.3000\n"
)
MMENGINE = (
    "04/21 21:03:53 - mmengine - INFO - Epoch(train) [1][50/1000]  lr: 1.000e-02  eta: 1:02:03  time: 0.010"
    "  data_time: 0.000  memory: 0  loss: 11.4723\n"
)
MMDET_2 = (
    "2022-05-07 13:14:22,908 - mmdet - INFO - Epoch [1][1500/14659]\tlr: 0.01000, eta: 1 day, 12:59:34, time: 0.739,"
    " data_time: 0.049, memory: 3028, loss_ins: 1.2023, loss_cate: 0.5622, loss: 1.7645\n"
)
DETECTRON_2 = "[05/06 12:00:00 d2.utils.events]:  eta: 0:01:02  iter: 19  total_loss: 1.2  loss_cls: 0.5  time: 0.3\n"
LIGHTNING = "Epoch 3:  45%|████▌     | 450/1000 [00:30<00:37, 14.80it/s, v_num=0, train_loss=0.310]\n"
IMAGENET = "Epoch: [2][  10/5005]\tTime  0.3 ( 0.5)\tData  0.0 ( 0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.10)\n"

EXCERPTS = [
    ("step 50 loss 0.61\n", {"step": 50, "loss": 0.61}),
    ("iter 100/1000: loss 1.2, lr 3e-4\n", {"step": 100, "total": 1000, "loss": 1.2}),
    ("Epoch [3/90] Batch [10/500] Loss: 0.3\n", {"step": 10, "total": 500, "epoch": 3, "epochs": 90, "loss": 0.3}),
    ("epoch: 3 | train_loss=0.51 | val_loss=0.6\n", {"epoch": 3, "loss": 0.51}),
    ("Step 1,250 of 10,000 - loss: .5\n", {"step": 1250, "total": 10000, "loss": 0.5}),
    ("[12:03:04] global_step=77 loss=1e-3\n", {"step": 77, "loss": 0.001}),
    ("step 5, loss: tensor(0.3105, device='cuda:0', grad_fn=<NllLossBackward0>)\n", {"step": 5, "loss": 0.3105}),
    ('{"step": 5, "loss": 0.3, "lr": 0.1}\n', {"step": 5, "loss": 0.3}),
    ("loss: 2.303494  [   64/60000]\n", {"step": 64, "total": 60000, "loss": 2.303494}),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.26\n", {"step": 640, "total": 60000, "epoch": 1, "loss": 2.26}),
    (IMAGENET, {"step": 10, "total": 5005, "epoch": 2, "loss": 6.9}),
    (
        " 45%|████▌     | 450/1000 [00:30<00:37, 14.8it/s, loss=0.3]\r",
        {"step": 450, "total": 1000, "loss": 0.3, "rate_per_s": 14.8, "eta_s": 37},
    ),
    (
        " 45%|####5     | 450/1000 [30:00<37:00, 4.00s/it]\n",
        {"step": 450, "total": 1000, "rate_per_s": 0.25, "eta_s": 2220},
    ),
    ("450it [00:30, 14.80it/s, loss=0.3]\n", {"step": 450, "loss": 0.3, "rate_per_s": 14.8}),
    ("  0%|          | 0/1000 [00:00<?, ?it/s]\n", {"total": 1000}),
    ("{'loss': 0.5, 'learning_rate': 1e-5, 'epoch': 1.5}\n", {"epoch": 1.5, "loss": 0.5}),
    ("{'loss': '0.5', 'grad_norm': '1.2', 'epoch': '1.5'}\n", {"epoch": 1.5, "loss": 0.5}),
    (LIGHTNING, {"step": 450, "total": 1000, "epoch": 3, "loss": 0.31, "rate_per_s": 14.8, "eta_s": 37}),
    (
        "Epoch 3/10\n 450/1000 [====>..] - ETA: 10s - loss: 0.3\n",
        {"step": 450, "total": 1000, "epoch": 3, "epochs": 10, "loss": 0.3, "eta_s": 10},
    ),
    (KERAS_3, {"step": 450, "total": 1000, "epoch": 3, "epochs": 10, "loss": 0.3, "rate_per_s": 50, "eta_s": 152}),
    (
        "Epoch 2/3\n1000/1000 - 23s - 23ms/step - loss: 0.3\n",
        {"step": 1000, "total": 1000, "epoch": 2, "epochs": 3, "loss": 0.3},
    ),
    (
        "Epoch 1/12\n  13440/Unknown - 2s 87us/step - loss: 0.8068\n",
        {"step": 13440, "epoch": 1, "epochs": 12, "loss": 0.8068},
    ),
    ("  13440/Unknown \x1b[1m2s\x1b[0m 87us/step - loss: 0.8068\n", {"step": 13440, "loss": 0.8068}),
    ("loss 0.25:  40%|####      | 40/100 [00:01<00:02, 30.0it/s]\n", {"step": 40, "total": 100, "loss": 0.25}),
    (MMENGINE, {"step": 50, "total": 1000, "epoch": 1, "loss": 11.4723, "eta_s": 3723}),
    (MMDET_2, {"step": 1500, "total": 14659, "epoch": 1, "loss": 1.7645, "eta_s": 133174}),
    (
        "05/06 - mmengine - INFO - Iter(train) [  50/80000]  lr: 1e-2  loss: 1.5\n",
        {"step": 50, "total": 80000, "loss": 1.5},
    ),
    (DETECTRON_2, {"step": 19, "loss": 1.2, "eta_s": 62}),
    (MEGATRON, {"step": 122, "total": 250000, "loss": 2.50422}),
    (FAIRSEQ, {"step": 100, "total": 5000, "epoch": 2, "loss": 8.2}),
]


@pytest.mark.parametrize(("text", "expected"), EXCERPTS, ids=[text[:40].strip() for text, _ in EXCERPTS])
def test_a_trainers_own_words_are_understood(text: str, expected: Dict[str, float]) -> None:
    known = said(read(text))
    ours = {name: value for name, value in known.items() if name in expected or name not in ("rate_per_s", "eta_s")}
    assert ours == pytest.approx(expected)


def test_other_numbers_of_a_line_become_metrics_but_counters_do_not() -> None:
    assert read(MEGATRON).metrics == {"learning rate": 9.15e-06, "grad norm": 0.231}
    assert read("step 5 loss 0.2 acc=0.9 val_loss=0.4 eta: 0:10\n").metrics == {"acc": 0.9, "val_loss": 0.4}
    assert read("{'train_runtime': 100.2, 'train_loss': 0.6, 'epoch': 3.0}\n").metrics == {"train_runtime": 100.2}


NOT_PROGRESS = [
    "error rate 5/10\n",
    "2024/05/06 12:00:00 ready\n",
    "05/06/2024 10:00 batch job began\n",
    "loaded 12/12 shards\n",
    "Loading checkpoint shards: 100%|██████████| 2/2 [00:01<00:00, 1.5it/s]\n",
    "Map:  40%|████      | 2000/5000 [00:01<00:01, 3000.00 examples/s]\n",
    "Generating train split: 100 examples [00:00, 3000.00 examples/s]\n",
    "model.safetensors: 100%|██████████| 570/570 [00:00<00:00, 200kB/s]\n",
    "packet loss 5%\n",
    "time per step 0.3 s\n",
    "steps per epoch: 500\n",
    "batch size: 32, micro-batch 4, batch=32\n",
    "  Total optimization steps = 1,500\n",
    "max_steps: 1000, warmup_steps: 10\n",
    "GET /step/50/loss HTTP/1.1 200\n",
    "ran it 3 times, 12/31 ok\n",
    "step 12.5 % done\n",
    "Validation DataLoader 0:  30%|███       | 3/10 [00:01<00:02, 3.00it/s]\n",
    "Sanity Checking:   0%|          | 0/2 [00:00<?, ?it/s]\n",
    "INFO: validation progress: 24%|##3 | 4/17 [00:24<01:20, 6.17s/it]\n",
    "05/06 - mmengine - INFO - Epoch(val) [1][50/200]  eta: 0:00:10\n",
    "checkpoints/step-500/loss 12\n",
    "Unpacking 3/7 [python3.9]\n",
]


@pytest.mark.parametrize("text", NOT_PROGRESS)
def test_lookalikes_are_no_progress(text: str) -> None:
    assert said(read(text)) == {}


def test_one_mention_of_a_step_is_not_believed_but_a_rising_one_is() -> None:
    assert read("resuming, will save at step 5000\n").step is None
    assert read("step 1\nstep 2\n").step == 2


def test_a_far_step_in_passing_does_not_move_a_training_with_losses() -> None:
    now = read("step 10 loss 1\nstep 20 loss 1\nnext evaluation at step 5000\nstep 30 loss 1\n")
    assert (now.step, now.restarts) == (30, 0)


def test_nan_and_infinite_losses_are_kept() -> None:
    reader = ProgressReader()
    reader.feed("step 1 loss 0.5\nstep 2 loss nan\n")
    assert math.isnan(reader.now.loss or 0)
    reader.feed("step 3 loss inf\n")
    assert reader.now.loss == math.inf
    assert [math.isnan(point) for point in reader.losses] == [False, True, True]


# ---------------------------------------------------------------- which counter is the training


def test_hugging_face_evaluation_bars_leave_the_training_alone() -> None:
    text = "".join(bar(step, 1000) for step in range(500)) + "\n{'loss': 0.5, 'grad_norm': 1.0, 'epoch': 1.5}\n"
    text += "".join(bar(step, 10) for step in range(11)) + "\n{'eval_loss': 0.7, 'eval_runtime': 3.1, 'epoch': 1.5}\n"
    now = read(text)
    assert (now.step, now.total, now.loss, now.epoch, now.restarts) == (499, 1000, 0.5, 1.5, 0)
    assert now.metrics["eval_loss"] == 0.7
    assert (now.eta_s, now.eta_of) == (50, "run")
    now = read(
        text
        + "".join(bar(step, 1000) for step in range(500, 1001))
        + "\n"
        + "".join(bar(n, 10) for n in range(11))
        + "\n"
    )
    assert (now.step, now.total, now.eta_s) == (1000, 1000, 0)


def test_lightning_validation_keeps_the_training_and_counts_no_restart() -> None:
    text = ""
    for epoch in range(3):
        text += "".join(
            bar(step, 100, "Epoch %d: " % epoch, ", v_num=0, train_loss=0.%d" % (9 - epoch))
            for step in range(0, 101, 10)
        )
        text += "".join(bar(step, 20, "Validation DataLoader 0: ") for step in range(0, 21, 5))
    now = read(text + "\n")
    assert (now.step, now.total, now.epoch, now.loss, now.restarts) == (100, 100, 2, 0.7, 0)


def test_an_unlabelled_validation_bar_does_not_replace_the_training_bar() -> None:
    text = "".join(bar(step, 100, "", ", loss=0.5") for step in range(0, 101, 10))
    text += "".join(bar(step, 20, "", ", loss=0.9") for step in range(0, 21, 5)) + "\n"
    now = read(text)
    assert (now.step, now.total, now.loss) == (100, 100, 0.5)


@pytest.mark.parametrize("labels", [("", ""), ("Epochs: ", "Batches: "), ("Epoch: ", "Iteration: ")])
def test_nested_bars_give_the_inner_step_and_the_outer_epoch(labels: List[str]) -> None:
    outer, inner = labels
    text = bar(0, 10, outer)
    for epoch in range(3):
        text += "".join(bar(step, 100, inner) for step in range(0, 101 if epoch < 2 else 51, 10))
        text += bar(epoch + 1, 10, outer) if epoch < 2 else ""
    now = read(text + "\n")
    assert (now.step, now.total, now.epoch, now.epochs, now.restarts) == (50, 100, 3, 10, 0)
    assert now.eta_of == "run"
    assert now.eta_s == pytest.approx(5 + 7 * 10)


def test_a_loop_over_epochs_alone_is_the_training() -> None:
    now = read("".join(bar(epoch, 50, "Epoch: ", ", loss=0.%d" % epoch) for epoch in range(5)) + "\n")
    assert (now.step, now.total, now.loss) == (4, 50, 0.4)


def test_lines_of_a_global_step_beside_a_bar_count_no_restarts() -> None:
    text = "".join("%s\nstep %d loss 0.5\n" % (bar(step % 100, 100), step) for step in range(0, 350, 10))
    assert read(text).restarts == 0


def test_nano_gpt_evaluation_lines_do_not_hold_back_the_iteration() -> None:
    text = "step 0: train loss 4.2, val loss 4.3\n"
    text += "".join("iter %d: loss 3.%02d, time 120.5ms, mfu 30.1%%\n" % (step, 99 - step) for step in range(0, 60, 10))
    text += "step 60: train loss 3.1, val loss 3.2\niter 70: loss 3.05, time 120ms, mfu 30%\n"
    now = read(text)
    assert (now.step, now.loss, now.restarts) == (70, 3.05, 0)
    assert now.metrics["val_loss"] == 3.2


def test_fairseq_validation_lines_change_neither_step_nor_loss() -> None:
    valid = FAIRSEQ.replace("train_inner", "valid").replace(
        "epoch 002:    100 / 5000", "epoch 002 | valid on 'valid' subset |"
    )
    now = read(FAIRSEQ + valid.replace("loss=8.2", "loss 5.5"))
    assert (now.step, now.total, now.loss) == (100, 5000, 8.2)


def test_a_keras_epoch_starts_again_without_a_restart() -> None:
    text = "".join(
        "Epoch %d/4\n" % epoch
        + "".join("\r%d/100 [===>..] - ETA: 1s - loss: 0.%d" % (step, epoch) for step in range(0, 101, 10))
        + "\n"
        for epoch in (1, 2, 3)
    )
    now = read(text)
    assert (now.step, now.epoch, now.epochs, now.loss, now.restarts) == (100, 3, 4, 0.3, 0)


def test_a_fall_of_the_step_after_a_resume_is_accepted_and_noted() -> None:
    lines = ["step %d loss 0.5\n" % step for step in [*range(0, 900, 100), 400, 500]]
    now = read("".join(lines))
    assert (now.step, now.restarts) == (500, 1)


def test_a_bar_drawn_before_its_first_step_does_not_say_it_began_at_zero() -> None:
    reader = ProgressReader()
    reader.feed("  0%|          | 0/600 [00:00<?, ?it/s]\n")
    for step in (41, 46, 49):
        reader.feed("".join(bar(step, 600)) + "\n")
    assert reader.any_place is not None
    assert (reader.any_place.first, reader.any_place.step) == (41, 49)


def test_a_training_that_counts_from_zero_began_there() -> None:
    reader = ProgressReader()
    reader.feed("".join("step %d/600 loss 0.5\n" % step for step in range(4)))
    assert reader.any_place is not None and reader.any_place.first == 0


def test_a_second_training_takes_over_once_it_shows_its_loss() -> None:
    text = "".join(bar(step, 50, "stage one: ", ", loss=0.5") for step in range(51))
    text += "".join(bar(step, 80, "stage two: ", ", loss=0.4") for step in range(10))
    now = read(text + "\n")
    assert (now.step, now.total, now.loss, now.restarts) == (9, 80, 0.4, 0)


def test_a_finished_first_training_does_not_hide_a_shorter_second_one() -> None:
    text = "".join(bar(step, 5000, "stage one: ", ", loss=0.5") for step in range(0, 5001, 50))
    text += "".join(bar(step, 4000, "stage two: ", ", loss=0.4") for step in range(2500))
    assert read(text + "\n").total == 4000


# ---------------------------------------------------------------- rate and end


def test_the_rate_is_measured_when_the_log_does_not_say_it() -> None:
    reader = ProgressReader()
    for second in range(10):
        reader.feed("step %d/100 loss 0.5\n" % (second * 2), at=100.0 + second)
    assert reader.now.rate_per_s == pytest.approx(2.0)
    assert reader.now.eta_s == pytest.approx((100 - 18) / 2)
    assert reader.now.seen_at == 109.0


def test_a_backlog_gives_no_rate() -> None:
    backlog = "".join("step %d/9000 loss 0.5\n" % step for step in range(5000))
    for old in (None, 50.0):
        reader = ProgressReader()
        reader.feed(backlog, at=old)
        assert reader.now.rate_per_s is None
        for second in range(1, 6):
            reader.feed("step %d/9000 loss 0.5\n" % (5000 + second), at=51.5 + second)
        assert reader.now.rate_per_s == pytest.approx(1.0, rel=0.35)


def test_the_rate_runs_on_across_epochs_and_foretells_the_whole_run() -> None:
    reader = ProgressReader()
    for number in range(25):
        epoch, batch = divmod(number, 10)
        reader.feed("Epoch [%d/5] Batch [%d/10] Loss: 0.3\n" % (epoch + 1, batch + 1), at=float(number))
    now = reader.now
    assert (now.step, now.epoch, now.restarts) == (5, 3, 0)
    assert now.rate_per_s == pytest.approx(1.0)
    assert (now.eta_s, now.eta_of) == (pytest.approx(25), "run")


def test_without_the_number_of_epochs_only_this_ones_end_is_foretold() -> None:
    assert read(LIGHTNING).eta_of == "epoch"


def test_epochs_alone_foretell_the_end_but_show_no_step() -> None:
    reader = ProgressReader()
    for epoch in range(1, 6):
        reader.feed("Epoch %d/20 - loss: 0.%d\n" % (epoch, 9 - epoch), at=60.0 * epoch)
    now = reader.now
    assert (now.step, now.total, now.epoch, now.epochs, now.loss) == (None, None, 5, 20, 0.4)
    assert now.eta_s == pytest.approx(15 * 60)


# ---------------------------------------------------------------- a pattern of the user's


def test_a_users_pattern_finds_what_guessing_would_not() -> None:
    reader = ProgressReader(r"Schritt (?P<step>\d+) von (?P<total>\d+), Fehler (?P<loss>\S+), Runde (?P<epoch>\d+)")
    reader.feed("Schritt 5 von 90, Fehler 0.25, Runde 2\nstep 99 loss 7\n")
    assert said(reader.now) == {"step": 5, "total": 90, "loss": 0.25, "epoch": 2}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?P<step>(\d+)+)x", "repeats a group"),
        (r"(a|a)*(?P<step>\d+)", "repeats a group"),
        (r".*.*.*.*(?P<step>\d+)", "more than three"),
        (r"(?P<steps>\d+)", "no group named step"),
        (r"(?P<step>", "not a regex"),
    ],
)
def test_a_pattern_that_could_hang_or_finds_no_step_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ProgressReader(pattern)


def test_a_pattern_whose_step_is_no_number_finds_nothing() -> None:
    assert said(read("at many\nat ٣\nat 99999999999999999999\n", r"at (?P<step>\S+)")) == {}


def test_none_reads_nothing() -> None:
    assert read("step 50 loss 0.61\n", "none") == Progress()


# ---------------------------------------------------------------- any chunks, any bytes, bounded

STORY = (
    "Epoch 1/3\r\n"
    + bar(1, 10, "", ", loss=0.5")
    + bar(2, 10, "", ", loss=0.4")
    + "\n"
    + KERAS_3
    + "Validation: 1/2\x1b[A\r\nstep 5/10 loss nan\n"
    + LIGHTNING
    + MMENGINE
    + "{'loss': 0.5, 'epoch': 1.5}\nstep 3 训练 loss 0.1\n"
)


def outcome(chunks: List[str], pattern: str = "auto") -> str:
    reader = ProgressReader(pattern)
    for chunk in chunks:
        reader.feed(chunk, at=3.0)
    return repr((reader.now, reader.losses))


def test_cutting_at_any_one_place_changes_nothing() -> None:
    whole = outcome([STORY])
    for place in range(len(STORY)):
        assert outcome([STORY[:place], STORY[place:]]) == whole


def test_single_characters_change_nothing() -> None:
    assert outcome(list(STORY)) == outcome([STORY])


pieces = st.sampled_from(
    [*STORY.splitlines(True), "loss", "=1", "step 7/9 ", "\r", "\n", "\x1b[2K", "x" * 4090, "İ", "\t"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(pieces, st.text(max_size=8)), max_size=30), st.lists(st.integers(0, 9000), max_size=12))
def test_chunks_do_not_matter_for_any_text(parts: List[str], cuts: List[int]) -> None:
    text = "".join(parts).replace("Σ", "")  # its lower case depends on its neighbours
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    chunks = [text[start:end] for start, end in zip(places, places[1:])]
    assert outcome(chunks) == outcome([text])


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400), st.one_of(st.none(), st.floats(0, 1e9)))
def test_no_text_breaks_the_reader(text: str, at: Optional[float]) -> None:
    reader = ProgressReader()
    reader.feed(text + "\n", at=at)
    assert len(reader.now.metrics) <= 16


@pytest.mark.parametrize(
    "line",
    [
        "a" * 99,
        "1" * 99,
        "1/",
        "━",
        "loss ",
        "step ",
        "step" + " " * 95,
        "[1/2",
        "a=1 ",
        "\x1b[1A",
        "\x1b]",
        "val loss 1 ",
    ]
    + ["1/2 [00:00<00:00, ", "epoch [1][", "a.", "1/2 [=", "train ", "eta: 1 days, ", "loss=-", "1it [00:00, 1"],
)
def test_hostile_lines_take_time_in_proportion_to_their_length(line: str) -> None:
    reader = ProgressReader()
    started = time.process_time()
    reader.feed((line * (4096 // len(line)) + "\n") * 50 + line * 100_000)
    assert time.process_time() - started < 3.0  # 200 kB and an endless line; a quadratic one takes minutes


def test_memory_stays_bounded() -> None:
    reader = ProgressReader()
    for number in range(3000):
        reader.feed("bar%s %d/%d [00:01<00:01, 1it/s, m%d=1]\n" % ("x" * (number % 50), number, number + 9, number))
        reader.feed("y" * 10_000)
        reader.feed("\n")
    reader.feed("z" * 1_000_000)
    assert len(reader.now.metrics) <= 16
    assert len(reader._held) <= 4096
    assert len(reader._counters._tracks) <= 16


def test_the_history_spans_the_whole_run_in_few_points() -> None:
    history = LossHistory()
    for number in range(100_000):
        history.add(100_000.0 - number)
    assert len(history.points) < LossHistory.POINTS
    assert history.points[0] > 99_000
    assert history.points[-1] < 1_500
    assert history.points == sorted(history.points, reverse=True)


def test_a_single_nan_stays_visible_in_a_long_history() -> None:
    history = LossHistory()
    for number in range(10_000):
        history.add(math.nan if number == 5000 else 1.0)
    assert sum(math.isnan(point) for point in history.points) == 1
