"""Multi-task pretraining of a sentence encoder with one shared encoder and a head per task."""
import argparse
import glob
import logging as log
import os
import random
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log.basicConfig(format="%(asctime)s: %(message)s", datefmt="%m/%d %I:%M:%S %p", level=log.INFO)
PAD, VOCAB = 0, 30000


class Language:
    """Words with Zipf frequencies; every word has a polarity and a topic."""

    def __init__(self, seed=77):
        rng = np.random.RandomState(seed)
        ranks = np.arange(1, VOCAB)
        prob = 1.0 / (ranks + 20.0)
        self.cdf = np.cumsum(prob / prob.sum())
        self.polarity = np.concatenate([[0.0], rng.choice([-1, 0, 0, 1], VOCAB - 1)])
        self.topic = np.concatenate([[-1], rng.randint(0, 5, VOCAB - 1)])
        self.by_topic = [np.flatnonzero(self.topic == t) for t in range(5)]
        self.topic_cdf = [np.cumsum(prob[w - 1] / prob[w - 1].sum()) for w in self.by_topic]

    def words(self, rng, n):
        return 1 + np.minimum(np.searchsorted(self.cdf, rng.rand(n)), VOCAB - 2)

    def topic_words(self, rng, topic, n):
        own = self.by_topic[topic]
        return own[np.minimum(np.searchsorted(self.topic_cdf[topic], rng.rand(n)), len(own) - 1)]


class Task:
    """One task: padded sentences (pairs for some tasks) and labels."""

    def __init__(self, name, n_classes, pair):
        self.name, self.n_classes, self.pair = name, n_classes, pair

    def make(self, lang, n, max_len, seed):
        rng = np.random.RandomState(seed)
        a = np.zeros((n, max_len), dtype=np.int64)
        b = np.zeros((n, max_len), dtype=np.int64)
        y = np.zeros(n, dtype=np.int64)
        for i in range(n):
            k = rng.randint(8, max_len + 1)
            if self.name == "sst":
                words = lang.words(rng, k)
                while abs(lang.polarity[words].sum()) < 1:
                    words = lang.words(rng, k)
                y[i] = int(lang.polarity[words].sum() > 0)
            elif self.name == "topic":
                y[i] = rng.randint(5)
                own = rng.rand(k) < 0.5
                words = np.where(own, lang.topic_words(rng, y[i], k), lang.words(rng, k))
            else:
                words = lang.words(rng, k)
                y[i] = rng.randint(2)
                other = words if y[i] else lang.words(rng, k)
                second = rng.permutation(other)[:rng.randint(5, 8)]
                b[i, :len(second)] = second
            a[i, :k] = words
        return tuple(torch.from_numpy(t) for t in (a, b, y))


class SentenceEncoder(nn.Module):
    def __init__(self, tasks, dim=128, hidden=128, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.heads = nn.ModuleDict()
        for task in tasks:
            width = 2 * hidden * (4 if task.pair else 1)
            self.heads[task.name] = nn.Sequential(nn.Linear(width, 128), nn.Tanh(), nn.Dropout(dropout),
                                                  nn.Linear(128, task.n_classes))

    def encode(self, ids):
        mask = ids != PAD
        packed = nn.utils.rnn.pack_padded_sequence(self.dropout(self.embedding(ids)), mask.sum(1), batch_first=True,
                                                   enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=ids.size(1))
        return hidden.masked_fill(~mask.unsqueeze(2), -1e4).max(1).values

    def forward(self, task, a, b):
        u = self.encode(a)
        if task.pair:
            v = self.encode(b)
            u = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
        return self.heads[task.name](self.dropout(u))


class SamplingMultiTaskTrainer:
    def __init__(self, args, tasks, lang):
        self.args, self.tasks = args, tasks
        self.train_data = {t.name: t.make(lang, args.train_size, args.max_len, args.seed + 10 + i)
                           for i, t in enumerate(tasks)}
        self.val_data = {t.name: t.make(lang, args.val_size, args.max_len, args.seed + 50 + i)
                         for i, t in enumerate(tasks)}
        self.model = SentenceEncoder(tasks)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, mode="max", factor=0.5,
                                                                    patience=10, min_lr=1e-5)
        self.generator = torch.Generator().manual_seed(args.seed)
        self.step, self.val_pass = 0, 0
        self.best_metric, self.best_pass = -1.0, None
        self.serialization_dir = args.run_dir
        os.makedirs(self.serialization_dir, exist_ok=True)

    def _batch(self):
        """A batch of a randomly drawn task."""
        task = self.tasks[torch.randint(len(self.tasks), (1,), generator=self.generator).item()]
        idx = torch.randint(self.args.train_size, (self.args.batch_size,), generator=self.generator)
        return (task,) + tuple(t[idx] for t in self.train_data[task.name])

    def train(self):
        self.model.train()
        while self.step < self.args.max_steps:
            task, a, b, y = self._batch()
            loss = F.cross_entropy(self.model(task, a, b), y)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            self.step += 1
            if self.step % 10 == 0:
                log.info("update %d: task %s, loss %.4f", self.step, task.name, loss.item())
            if self.step % self.args.val_interval == 0:
                self._validation_pass()

    def _validation_pass(self):
        self.val_pass += 1
        metrics = self._validate()
        macro = sum(metrics.values()) / len(metrics)
        log.info("validation %d: %s, macro average %.4f", self.val_pass,
                 ", ".join(f"{k} {v:.4f}" for k, v in metrics.items()), macro)
        self.scheduler.step(macro)
        if macro > self.best_metric:
            self.best_metric, self.best_pass = macro, self.val_pass
        self._save_checkpoint()

    @torch.no_grad()
    def _validate(self):
        self.model.eval()
        metrics = {}
        for task in self.tasks:
            a, b, y = self.val_data[task.name]
            hits = sum((self.model(task, a[i:i + 100], b[i:i + 100]).argmax(1) == y[i:i + 100]).sum().item()
                       for i in range(0, len(y), 100))
            metrics[task.name] = hits / len(y)
        self.model.train()
        return metrics

    def _checkpoints(self):
        """Numbers of the passes with a checkpoint, oldest first."""
        found = glob.glob(os.path.join(self.serialization_dir, "state_pass_*.th"))
        return sorted(int(re.search(r"state_pass_(\d+)\.th$", f).group(1)) for f in found)

    def _path(self, val_pass):
        return os.path.join(self.serialization_dir, f"state_pass_{val_pass}.th")

    def _save_checkpoint(self):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "step": self.step,
            "val_pass": self.val_pass,
            "best": (self.best_metric, self.best_pass),
            "generator": self.generator.get_state(),
            "torch_rng": torch.get_rng_state(),
        }
        torch.save(state, self._path(self.val_pass) + ".tmp")
        os.replace(self._path(self.val_pass) + ".tmp", self._path(self.val_pass))

    def restore(self):
        passes = self._checkpoints()
        if not passes:
            return
        state = torch.load(self._path(passes[-1]), weights_only=False)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.step, self.val_pass = state["step"], state["val_pass"]
        self.best_metric, self.best_pass = state["best"]
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["torch_rng"])
        log.info("restored validation pass %d (update %d)", self.val_pass, self.step)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run_dir", default="runs/jiant")
    parser.add_argument("--load_model", action="store_true", help="go on from the newest checkpoint of run_dir")
    parser.add_argument("--train_size", type=int, default=10000)
    parser.add_argument("--val_size", type=int, default=400)
    parser.add_argument("--max_len", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--val_interval", type=int, default=100)
    parser.add_argument("--max_steps", type=int, default=80000)
    parser.add_argument("--seed", type=int, default=19)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    tasks = [Task("sst", 2, False), Task("topic", 5, False), Task("overlap", 2, True)]
    trainer = SamplingMultiTaskTrainer(args, tasks, Language())
    if args.load_model:
        trainer.restore()
    trainer.train()


if __name__ == "__main__":
    main()
