"""Character language model of Python code with annealing and resumable training."""
import argparse
import glob
import math
import os
import random
import sysconfig
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def load_text(max_chars):
    """Sources of the standard library, in a fixed order; the last part is for validation."""
    root = sysconfig.get_paths()["stdlib"]
    paths = sorted(glob.glob(os.path.join(root, "*.py")) + glob.glob(os.path.join(root, "[ceihjlux]*", "*.py")))
    rng = random.Random(4)
    rng.shuffle(paths)
    parts, size = [], 0
    for path in paths:
        with open(path, encoding="utf-8", errors="ignore") as f:
            text = f.read()
        if text.isascii() and 1000 < len(text) < 120000:
            parts.append(text)
            size += len(text)
        if size > max_chars:
            break
    held_out = max(1, len(parts) // 12)
    return "".join(parts[held_out:]), "".join(parts[:held_out])


class Corpus:
    def __init__(self, max_chars):
        train, valid = load_text(max_chars)
        self.chars = sorted(set(train) | set(valid))
        index = {c: i for i, c in enumerate(self.chars)}
        self.train = torch.tensor([index[c] for c in train])
        self.valid = torch.tensor([index[c] for c in valid])

    def batch(self, batch_size, length, generator):
        start = torch.randint(0, len(self.train) - length - 1, (batch_size,), generator=generator)
        rows = torch.stack([self.train[s:s + length + 1] for s in start.tolist()])
        return rows[:, :-1], rows[:, 1:]

    def valid_batches(self, batch_size, length, count):
        step = (len(self.valid) - length - 1) // (batch_size * count)
        for k in range(count):
            rows = torch.stack([self.valid[s:s + length + 1]
                                for s in range(k * batch_size * step, (k + 1) * batch_size * step, step)])
            yield rows[:, :-1], rows[:, 1:]


class CharModel(nn.Module):
    def __init__(self, vocab, emb=64, hidden=256, layers=2, dropout=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, hidden, layers, batch_first=True, dropout=dropout)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        hidden, _ = self.rnn(self.emb(x))
        return self.out(self.drop(hidden))


class NMTEngineTrainer:
    def __init__(self, args):
        self.args = args
        self.corpus = Corpus(args.max_chars)
        self.model = CharModel(len(self.corpus.chars))
        self.optimizer = None
        self.generator = torch.Generator().manual_seed(args.seed)
        self.step = 0
        self.best_ppl = float("inf")
        self.bad_validations = 0
        self.checkpoint = os.path.join(args.model, "checkpoint.pt")
        os.makedirs(args.model, exist_ok=True)

    def create_optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.args.learning_rate)

    def start(self):
        self.optimizer = self.create_optimizer()

    def resume(self):
        state = torch.load(self.checkpoint, weights_only=False)
        self.model.load_state_dict(state["model"])
        self.optimizer = self.create_optimizer()
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.best_ppl = state["best_ppl"]
        self.bad_validations = state["bad_validations"]
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["torch_rng"])
        print(f"resumed from step {self.step}, best perplexity {self.best_ppl:.4f}", flush=True)

    def save(self):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "best_ppl": self.best_ppl,
            "bad_validations": self.bad_validations,
            "generator": self.generator.get_state(),
            "torch_rng": torch.get_rng_state(),
        }
        torch.save(state, self.checkpoint + ".tmp")
        os.replace(self.checkpoint + ".tmp", self.checkpoint)

    def validate(self):
        self.model.eval()
        total, count = 0.0, 0
        with torch.no_grad():
            for x, y in self.corpus.valid_batches(50, self.args.length, 6):
                total += F.cross_entropy(self.model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
                count += y.numel()
        self.model.train()
        return math.exp(total / count)

    def anneal(self):
        """Halve the rate when the validation perplexity has not improved twice."""
        self.bad_validations = 0
        for group in self.optimizer.param_groups:
            group["lr"] = max(self.args.min_lr, 0.5 * group["lr"])

    def train(self):
        args = self.args
        self.model.train()
        began = time.time()
        while self.step < args.max_steps:
            x, y = self.corpus.batch(args.batch_size, args.length, self.generator)
            loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), args.clip)
            self.optimizer.step()
            self.step += 1
            if self.step % args.report_steps == 0:
                print(f"step {self.step} loss {loss.item():.4f} lr {self.optimizer.param_groups[0]['lr']:.6f} "
                      f"({time.time() - began:.0f}s)", flush=True)
            if self.step % args.validation_steps == 0:
                ppl = self.validate()
                print(f"step {self.step} validation perplexity {ppl:.4f}", flush=True)
                if ppl < self.best_ppl:
                    self.best_ppl = ppl
                    self.bad_validations = 0
                    torch.save(self.model.state_dict(), os.path.join(args.model, "best.pt"))
                else:
                    self.bad_validations += 1
                    if self.bad_validations >= 2:
                        self.anneal()
            if self.step % args.checkpoint_steps == 0:
                self.save()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="runs/code_lm", help="folder of the model and of its checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint of the folder")
    parser.add_argument("--max_chars", type=int, default=2500000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--min_lr", type=float, default=2e-5)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--max_steps", type=int, default=30000)
    parser.add_argument("--report_steps", type=int, default=10)
    parser.add_argument("--validation_steps", type=int, default=250)
    parser.add_argument("--checkpoint_steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    trainer = NMTEngineTrainer(args)
    if args.resume and os.path.exists(trainer.checkpoint):
        trainer.resume()
    else:
        trainer.start()
    trainer.train()


if __name__ == "__main__":
    main()
