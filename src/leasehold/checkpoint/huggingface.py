"""Save through Hugging Face's Trainer on schedule and at SIGTERM, whole or not at all, and resume from there.

from leasehold.checkpoint.huggingface import trainer_callback

guard = trainer_callback("ckpt")
trainer = Trainer(..., callbacks=[guard])
trainer.train(resume_from_checkpoint=guard.newest())
"""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Optional

from leasehold.checkpoint.decide.log_lines import ProgressLines, to_stderr
from leasehold.checkpoint.store.native import NativeCheckpoints

_SMALL_BYTES = 1 << 20


def trainer_callback(folder: str = "ckpt", keep: int = 2, every_s: Optional[float] = None) -> Any:
    """Return a TrainerCallback; `newest()` returns the value for resume_from_checkpoint."""
    from transformers import TrainerCallback

    shelf = NativeCheckpoints(folder, keep, every_s)

    class LeaseholdCallback(TrainerCallback):  # type: ignore[misc]
        """Saves through the trainer itself, so that everything that the trainer resumes is included."""

        def newest(self) -> Optional[str]:
            return shelf.newest() or None

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            shelf.wishes.listen()
            self.lines = ProgressLines(state.max_steps or None, to_stderr)

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
            if state.is_world_process_zero:
                logged: Any = next((entry for entry in reversed(state.log_history) if "loss" in entry), {})
                self.lines.step(state.global_step, state.epoch, {"loss": logged.get("loss")}, time.monotonic())
            if shelf.due():
                control.should_save = True
                control.should_training_stop = control.should_training_stop or shelf.wishes.leave
            return control

        def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            written = os.path.join(args.output_dir, "checkpoint-%d" % state.global_step)
            if os.path.isdir(written):
                shelf.save(state.global_step, lambda place: _take_over(written, place, state.is_world_process_zero))

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            shelf.ended("signal" if shelf.wishes.leave else "done")
            shelf.wishes.forget()

    return LeaseholdCallback()


def _take_over(written: str, place: str, first: bool) -> None:
    """Link the trainer's files into our folder, or copy them if links are not possible; its own stays unchanged."""
    if not first:
        return
    for base, _, names in os.walk(written):
        target = os.path.join(place, os.path.relpath(base, written))
        os.makedirs(target, exist_ok=True)
        for name in names:
            _link(os.path.join(base, name), os.path.join(target, name))


def _link(source: str, target: str) -> None:
    if os.path.getsize(source) > _SMALL_BYTES:  # small files may be overwritten in place
        try:
            os.link(source, target)
            return
        except OSError:
            pass
    shutil.copy2(source, target)
