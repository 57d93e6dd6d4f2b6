"""
Reward model for code: prefers a snippet as it was written to a damaged copy of it.

Pairs are made on the fly from the sources of the standard library; the model is a
hashed n-gram embedding with a small convolutional scorer, trained with the
Bradley-Terry loss. Training resumes from the newest checkpoint in the output directory.
"""
from __future__ import annotations

import argparse
import random
import re
import shutil
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

TOKEN = re.compile(r"[A-Za-z_]+|\d+|[^\sA-Za-z_\d]")


@dataclass
class CheckpointConfig:
    interval: int = 100
    # how many step checkpoints to keep; None keeps them all
    keep: int | None = None


@dataclass
class TrainerConfig:
    output_dir: Path = Path("outputs/reward")
    max_steps: int = 40000
    batch_size: int = 32
    length: int = 64
    buckets: int = 40000
    dim: int = 128
    lr: float = 2e-3
    warmup_steps: int = 100
    eval_interval: int = 200
    seed: int = 42
    ckpt: CheckpointConfig = field(default_factory=CheckpointConfig)


def parse_config() -> TrainerConfig:
    default = TrainerConfig()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output-dir", type=Path, default=default.output_dir)
    parser.add_argument("--max-steps", type=int, default=default.max_steps)
    parser.add_argument("--batch-size", type=int, default=default.batch_size)
    parser.add_argument("--lr", type=float, default=default.lr)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--ckpt.interval", dest="ckpt_interval", type=int, default=default.ckpt.interval)
    parser.add_argument("--ckpt.keep", dest="ckpt_keep", type=int, default=default.ckpt.keep)
    a = parser.parse_args()
    return TrainerConfig(output_dir=a.output_dir, max_steps=a.max_steps, batch_size=a.batch_size, lr=a.lr, seed=a.seed,
                         ckpt=CheckpointConfig(a.ckpt_interval, a.ckpt_keep))


class CheckpointManager:
    def __init__(self, output_dir: Path, config: CheckpointConfig) -> None:
        self.dir = output_dir / "checkpoints"
        self.config = config
        self.dir.mkdir(parents=True, exist_ok=True)

    def steps(self) -> list[int]:
        return sorted(int(p.name.split("_")[1]) for p in self.dir.glob("step_*") if (p / "trainer.pt").exists())

    def save(self, step: int, state: dict) -> None:
        path = self.dir / f"step_{step}"
        path.mkdir(exist_ok=True)
        torch.save(state, path / "trainer.pt.tmp")
        (path / "trainer.pt.tmp").rename(path / "trainer.pt")
        self.maybe_clean()

    def maybe_clean(self) -> None:
        """Delete old checkpoints, only after a new one has been written."""
        if self.config.keep is None:
            return
        for step in self.steps()[: -self.config.keep]:
            shutil.rmtree(self.dir / f"step_{step}")

    def load_latest(self) -> dict | None:
        steps = self.steps()
        if not steps:
            return None
        return torch.load(self.dir / f"step_{steps[-1]}" / "trainer.pt", weights_only=False)


class PairSource:
    def __init__(self, config: TrainerConfig, rng: random.Random) -> None:
        self.length, self.buckets, self.rng = config.length, config.buckets, rng
        files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
        docs = [TOKEN.findall(p.read_text(errors="ignore"))[:6000] for p in files]
        docs = [d for d in docs if len(d) > 4 * self.length]
        self.train, self.val = docs[: -len(docs) // 10], docs[-len(docs) // 10:]
        self.cache: dict[str, int] = {}

    def bucket(self, gram: str) -> int:
        if gram not in self.cache:
            h = 2166136261
            for ch in gram.encode():
                h = ((h ^ ch) * 16777619) & 0xFFFFFFFF
            self.cache[gram] = h % self.buckets
        return self.cache[gram]

    def ids(self, tokens: list[str]) -> list[list[int]]:
        return [[self.bucket(a), self.bucket(a + " " + b)] for a, b in zip(tokens, tokens[1:] + ["<end>"])]

    def damage(self, tokens: list[str]) -> list[str]:
        tokens = list(tokens)
        for _ in range(self.rng.randint(3, 7)):
            i = self.rng.randrange(len(tokens) - 1)
            kind = self.rng.random()
            if kind < 0.4:
                tokens[i], tokens[i + 1] = tokens[i + 1], tokens[i]
            elif kind < 0.7:
                tokens[i] = self.rng.choice(tokens)
            else:
                tokens.insert(i, tokens.pop(self.rng.randrange(len(tokens))))
        return tokens

    def batch(self, size: int, split: str = "train") -> tuple[Tensor, Tensor]:
        docs = self.train if split == "train" else self.val
        chosen, rejected = [], []
        for _ in range(size):
            doc = self.rng.choice(docs)
            start = self.rng.randrange(len(doc) - self.length)
            tokens = doc[start:start + self.length]
            chosen.append(self.ids(tokens))
            rejected.append(self.ids(self.damage(tokens)))
        return torch.tensor(chosen), torch.tensor(rejected)


class RewardModel(nn.Module):
    def __init__(self, buckets: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(buckets, dim)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.conv = nn.Sequential(nn.Conv1d(dim, dim, 3, padding=1), nn.GELU(), nn.Conv1d(dim, dim, 3, padding=1), nn.GELU())
        self.score = nn.Sequential(nn.Linear(2 * dim, dim), nn.GELU(), nn.Linear(dim, 1))

    def forward(self, ids: Tensor) -> Tensor:
        h = self.conv(self.embed(ids).sum(2).transpose(1, 2))
        return self.score(torch.cat([h.mean(2), h.amax(2)], dim=1)).squeeze(1)


@torch.no_grad()
def evaluate(model: RewardModel, pairs: list[tuple[Tensor, Tensor]]) -> float:
    model.eval()
    accuracy = np.mean([(model(c) > model(r)).float().mean().item() for c, r in pairs])
    model.train()
    return float(accuracy)


def train(config: TrainerConfig) -> None:
    random.seed(config.seed)
    np.random.seed(config.seed)
    torch.manual_seed(config.seed)
    rng = random.Random(config.seed)
    source = PairSource(config, rng)
    val_pairs = [source.batch(64, "val") for _ in range(4)]

    model = RewardModel(config.buckets, config.dim)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, config.warmup_steps),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.max_steps - config.warmup_steps)], [config.warmup_steps])
    manager = CheckpointManager(config.output_dir, config.ckpt)
    step = 0
    if (state := manager.load_latest()) is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        rng.setstate(state["rng"])
        torch.set_rng_state(state["torch_rng"])
        step = state["step"]
        print(f"resuming from step {step}")

    losses: list[float] = []
    start = time.time()
    while step < config.max_steps:
        chosen, rejected = source.batch(config.batch_size)
        scores = model(torch.cat([chosen, rejected]))
        margin = scores[: len(chosen)] - scores[len(chosen):]
        loss = -F.logsigmoid(margin).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        step += 1
        losses = (losses + [loss.item()])[-100:]
        if step % 20 == 0:
            print(f"step {step} | loss {np.mean(losses[-20:]):.4f} | lr {scheduler.get_last_lr()[0]:.2e} | {time.time() - start:.0f}s", flush=True)
        if step % config.eval_interval == 0:
            print(f"step {step} | val accuracy {evaluate(model, val_pairs):.4f}", flush=True)
        if step % config.ckpt.interval == 0:
            manager.save(step, {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                "scheduler": scheduler.state_dict(), "rng": rng.getstate(), "torch_rng": torch.get_rng_state()})


if __name__ == "__main__":
    train(parse_config())
