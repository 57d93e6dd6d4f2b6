import math
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_reviews(n, vocab_size=200, max_len=24, num_labels=4, seed=0):
    """Each review mixes common words with words of its own topic."""
    rng = np.random.RandomState(seed)
    topic_words = np.arange(20, 20 + 15 * num_labels).reshape(num_labels, 15)
    ids = np.zeros((n, max_len), dtype=np.int64)
    mask = np.zeros((n, max_len), dtype=bool)
    labels = rng.randint(0, num_labels, size=n)
    for i in range(n):
        length = rng.randint(12, max_len + 1)
        words = rng.randint(80, vocab_size, size=length)
        on_topic = rng.rand(length) < 0.3
        words[on_topic] = rng.choice(topic_words[labels[i]], size=on_topic.sum())
        off_topic = rng.rand(length) < 0.1
        words[off_topic] = rng.choice(topic_words.reshape(-1), size=off_topic.sum())
        ids[i, :length] = words
        mask[i, :length] = True
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(labels)


class EncoderForSequenceClassification(nn.Module):
    def __init__(self, vocab_size, num_labels, dim=48, heads=4, layers=1, max_len=24, dropout=0.1):
        super().__init__()
        self.word = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        self.drop = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.classifier = nn.Linear(dim, num_labels)

    def forward(self, input_ids, attention_mask, labels=None):
        positions = torch.arange(input_ids.size(1))
        x = self.drop(self.word(input_ids) + self.pos(positions))
        x = self.encoder(x, src_key_padding_mask=~attention_mask)
        weights = attention_mask.unsqueeze(-1).float()
        pooled = (x * weights).sum(1) / weights.sum(1)
        logits = self.classifier(self.drop(pooled))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits, labels)
        return loss, logits


class ClassificationModel:
    def __init__(self, num_labels, args):
        self.args = args
        random.seed(args["manual_seed"])
        np.random.seed(args["manual_seed"])
        torch.manual_seed(args["manual_seed"])
        self.model = EncoderForSequenceClassification(200, num_labels)

    def _inputs(self, batch):
        return {"input_ids": batch[0], "attention_mask": batch[1], "labels": batch[2]}

    def train_model(self, train_dataset, eval_dataset):
        args = self.args
        loader = DataLoader(train_dataset, batch_size=args["train_batch_size"], shuffle=True)
        total = len(loader) * args["num_train_epochs"]
        warmup = math.ceil(total * args["warmup_ratio"])
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=args["learning_rate"])
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda s: min(1.0, (s + 1) / warmup) * max(0.05, (total - s) / total)
        )
        global_step, running = 0, []
        model = self.model
        model.train()
        for epoch in range(args["num_train_epochs"]):
            for batch in loader:
                model.train()
                loss, _ = model(**self._inputs(batch))
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), args["max_grad_norm"])
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                global_step += 1
                running.append(loss.item())
                if args["evaluate_during_training"] and global_step % args["evaluate_during_training_steps"] == 0:
                    result = self.eval_model(eval_dataset)
                    print(f"step {global_step}: train_loss {np.mean(running[-40:]):.4f} "
                          f"eval_loss {result['eval_loss']:.4f} acc {result['acc']:.3f}")
        return global_step

    def eval_model(self, eval_dataset):
        loader = DataLoader(eval_dataset, batch_size=self.args["eval_batch_size"])
        self.model.eval()
        losses, correct, count = [], 0, 0
        with torch.no_grad():
            for batch in loader:
                loss, logits = self.model(**self._inputs(batch))
                losses.append(loss.item())
                correct += (logits.argmax(-1) == batch[2]).sum().item()
                count += batch[2].numel()
        return {"eval_loss": float(np.mean(losses)), "acc": correct / count}


if __name__ == "__main__":
    model_args = {
        "manual_seed": 4, "train_batch_size": 32, "eval_batch_size": 100, "num_train_epochs": 3,
        "learning_rate": 2e-3, "warmup_ratio": 0.06, "max_grad_norm": 5.0,
        "evaluate_during_training": True, "evaluate_during_training_steps": 40,
    }
    train_set = TensorDataset(*make_reviews(1920, seed=1))
    eval_set = TensorDataset(*make_reviews(300, seed=2))
    clf = ClassificationModel(4, model_args)
    steps = clf.train_model(train_set, eval_set)
    print("finished", steps, "steps;", clf.eval_model(eval_set))
