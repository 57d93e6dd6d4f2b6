"""Language modelling with transformers' Trainer, the way of run_clm.py: tokenise, group into blocks, train, perplexity."""

import json
import math
import os
import tempfile
from itertools import chain
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

set_seed(11)
texts = [path.read_text("utf-8") for path in sorted(Path(json.__file__).parent.glob("*.py"))]
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel()
bpe.decoder = decoders.ByteLevel()
bpe.train_from_iterator(
    texts, trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False)
)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|endoftext|>")
block_size = 32
raw = Dataset.from_dict({"text": [line for text in texts for line in text.split("\n\n")]}).train_test_split(
    0.1, seed=11
)


def tokenize_function(examples):
    return tokenizer(examples["text"])


def group_texts(examples):
    concatenated = {k: list(chain(*examples[k])) for k in examples}
    total_length = len(concatenated["input_ids"]) // block_size * block_size
    result = {k: [t[i : i + block_size] for i in range(0, total_length, block_size)] for k, t in concatenated.items()}
    result["labels"] = result["input_ids"].copy()
    return result


lm_datasets = raw.map(tokenize_function, batched=True, remove_columns=["text"]).map(group_texts, batched=True)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=block_size,
        n_embd=48,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
)
with tempfile.TemporaryDirectory() as output_dir:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=output_dir,
            max_steps=40,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=4,
            logging_steps=5,
            save_steps=20,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=11,
        ),
        train_dataset=lm_datasets["train"],
        eval_dataset=lm_datasets["test"],
        data_collator=default_data_collator,
    )
    trainer.remove_callback(PrinterCallback)  # its lines hold times
    trainer.train()
    metrics = trainer.evaluate()
for entry in trainer.state.log_history:
    print({k: v for k, v in entry.items() if k in {"loss", "grad_norm", "learning_rate", "eval_loss"}})
print("perplexity", math.exp(metrics["eval_loss"]))
