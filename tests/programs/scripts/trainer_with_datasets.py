"""Text classification with transformers' Trainer and a datasets.DatasetDict, the way of run_glue.py: is a line of Python a comment?"""

import json
import os
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(3)
lines = dict.fromkeys(
    line.strip()
    for path in sorted(Path(json.__file__).parent.glob("*.py"))
    for line in path.read_text("utf-8").splitlines()
    if len(line.strip()) > 10
)
texts = [line.lstrip("# ") for line in lines]
labels = [int(any(word in line for word in ("return", "raise", "if ", "="))) for line in lines]
raw = DatasetDict(
    {
        "train": Dataset.from_dict({"sentence": texts[:512], "label": labels[:512]}),
        "validation": Dataset.from_dict({"sentence": texts[512:640], "label": labels[512:640]}),
    }
)
words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]")


def preprocess_function(examples):
    return tokenizer(examples["sentence"], max_length=24, truncation=True)


tokenized = raw.map(preprocess_function, batched=True, remove_columns=["sentence"])
config = BertConfig(
    vocab_size=len(tokenizer),
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    max_position_embeddings=32,
    num_labels=2,
)
model = BertForSequenceClassification(config)


def compute_metrics(p: EvalPrediction):
    return {"accuracy": float((np.argmax(p.predictions, axis=1) == p.label_ids).mean())}


with tempfile.TemporaryDirectory() as output_dir:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=output_dir,
            num_train_epochs=2,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=32,
            learning_rate=1e-3,
            warmup_steps=6,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            logging_steps=10,
            report_to=[],
            disable_tqdm=True,
            seed=3,
            use_cpu=True,
        ),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation"],
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=compute_metrics,
    )
    trainer.remove_callback(PrinterCallback)  # its lines hold times
    trainer.train()
    metrics = trainer.evaluate()
for entry in trainer.state.log_history:
    print({k: v for k, v in entry.items() if "runtime" not in k and "per_second" not in k})
print(metrics["eval_loss"], metrics["eval_accuracy"])
