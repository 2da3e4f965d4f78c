"""A Lightning callback that saves through the trainer, whole or not at all, and finds the newest whole file.

from leasehold.checkpoint.lightning import lightning_callback

guard = lightning_callback("ckpt")  # every_steps=500, or every_s=600, fix the interval; the end is saved, too
Trainer(callbacks=[guard]).fit(model, data, ckpt_path=guard.newest())

Lightning by itself restarts an epoch's data after a resume in its middle. Pass the loader's ResumableSampler
(`lightning_callback("ckpt", sampler=sampler)`), or use a loader with its own state.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional

from leasehold.checkpoint.decide.log_lines import ProgressLines, to_stderr
from leasehold.checkpoint.store.native import NativeCheckpoints

FILE = "trainer.ckpt"


def lightning_callback(
    folder: str = "ckpt",
    keep: int = 2,
    every_s: Optional[float] = None,
    sampler: Any = None,
    every_steps: Optional[int] = None,
) -> Any:
    """Return a Lightning Callback; `newest()` returns the value for ckpt_path. `every_steps` counts optimizer steps."""
    callback = _callback_class()
    shelf = NativeCheckpoints(folder, keep, every_s, every_steps=every_steps)

    class LeaseholdCallback(callback):  # type: ignore[misc, valid-type]
        """Saves at the end of a batch, on schedule or on request."""

        def newest(self) -> Optional[str]:
            found = shelf.newest()
            return os.path.join(found, FILE) if found else None

        def state_dict(self) -> Dict[str, Any]:
            return {"sampler": sampler.state_dict()} if sampler is not None else {}

        def load_state_dict(self, state: Dict[str, Any]) -> None:
            if sampler is not None and "sampler" in state:
                sampler.load_state_dict(state["sampler"])

        def on_train_start(self, trainer: Any, module: Any) -> None:
            shelf.wishes.listen()
            self.stepped = trainer.global_step
            total = trainer.estimated_stepping_batches
            self.lines = ProgressLines(int(total) if 0 < total < float("inf") else None, to_stderr)

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if sampler is not None:
                sampler.advance()
            if trainer.is_global_zero:
                loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
                epoch = trainer.current_epoch
                self.lines.step(trainer.global_step, epoch, {"loss": loss}, time.monotonic())
            moved, self.stepped = trainer.global_step != self.stepped, trainer.global_step
            if not (moved and shelf.due()):  # between two optimizer steps, accumulated gradients would be lost
                return
            self._save(trainer)
            trainer.should_stop = trainer.should_stop or shelf.wishes.leave

        def on_train_end(self, trainer: Any, module: Any) -> None:
            if trainer.global_step not in (0, shelf.saved_step):  # what came after the last one is trained, too
                self._save(trainer)
            shelf.ended("signal" if shelf.wishes.leave else "done")
            shelf.wishes.forget()

        def _save(self, trainer: Any) -> None:
            shelf.save(trainer.global_step, lambda place: trainer.save_checkpoint(os.path.join(place, FILE)))

    return LeaseholdCallback()


def _callback_class() -> Any:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback
    return Callback
