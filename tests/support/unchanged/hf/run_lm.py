import logging
import sys
import time
from dataclasses import dataclass, field
from typing import Optional

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    hidden_size: int = field(default=32, metadata={"help": "width"})


@dataclass
class DataTrainingArguments:
    train_file: Optional[str] = field(default=None, metadata={"help": "a text file"})
    block_size: int = field(default=8)
    max_train_samples: Optional[int] = field(default=None)


class Lines(torch.utils.data.Dataset):
    def __init__(self, path, tokenizer, block_size, most):
        ids = tokenizer(open(path).read())["input_ids"]
        self.blocks = [ids[i : i + block_size] for i in range(0, len(ids) - block_size, block_size)][:most]

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        block = torch.tensor(self.blocks[index])
        return {"input_ids": block, "labels": block}


class Slow(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.03)


def main():
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    logging.basicConfig(level=logging.INFO, handlers=[logging.StreamHandler(sys.stdout)])
    set_seed(training_args.seed)
    words = sorted(set(open(data_args.train_file).read().split()))
    vocabulary = {word: place for place, word in enumerate(["[UNK]", "[PAD]", *words])}
    plain = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    plain.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]", pad_token="[PAD]")
    config = GPT2Config(
        vocab_size=len(vocabulary), n_positions=32, n_embd=model_args.hidden_size, n_layer=1, n_head=2,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    train_dataset = Lines(data_args.train_file, tokenizer, data_args.block_size, data_args.max_train_samples)
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_dataset,
        processing_class=tokenizer,
        callbacks=[Slow()],
    )
    if training_args.do_train:
        checkpoint = None
        if training_args.resume_from_checkpoint is not None:
            checkpoint = training_args.resume_from_checkpoint
        train_result = trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model()
        metrics = train_result.metrics
        metrics["train_samples"] = len(train_dataset)
        trainer.log_metrics("train", metrics)
        trainer.save_metrics("train", metrics)
        trainer.save_state()


if __name__ == "__main__":
    main()
