"""A character model that draws its batches itself, as nanoGPT does. ``--fault`` switches one mistake on."""

import argparse
import math
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

FAULTS = (
    "none",
    "mask-forgotten",
    "mask-upside-down",
    "target-not-moved",
    "warmup-never-ends",
    "lr-thousandfold",
    "unseeded-dropout-of-targets",
    "positions-forgotten",
    "tokens-out-of-order",
    "nan-from-log",
    "attention-over-batch",
    "loss-of-first-token-only",
)
LENGTH, WIDTH, BATCH = 32, 48, 16


class Block(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        if self.fault == "attention-over-batch":
            h = h.transpose(0, 1)
        q, k, v = self.qkv(h).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / math.sqrt(WIDTH)
        n = scores.shape[-1]
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        if self.fault == "mask-upside-down":
            future = future.T
        if self.fault not in {"mask-forgotten", "attention-over-batch"}:
            scores = scores.masked_fill(future, float("-inf"))
        h = self.proj(scores.softmax(-1) @ v)
        x = x + (h.transpose(0, 1) if self.fault == "attention-over-batch" else h)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(fault), Block(fault))
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x)
        if self.fault != "positions-forgotten":
            h = h + self.places.weight
        return self.head(self.blocks(h))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, default="none")
    fault = parser.parse_args().fault
    torch.manual_seed(5)
    text = b"".join(p.read_bytes() for p in sorted(Path(os.__file__).parent.glob("a*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    model = Model(fault)
    lr = 1.0 if fault == "lr-thousandfold" else 2e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for step in range(5000):
        rate = lr * min(1.0, (step + 1) / (10_000_000 if fault == "warmup-never-ends" else 20))
        for group in optimizer.param_groups:
            group["lr"] = rate
        places = torch.randint(len(data) - LENGTH - 1, (BATCH,))
        x = torch.stack([data[p : p + LENGTH] for p in places])
        y = torch.stack([data[p + (fault != "target-not-moved") :][:LENGTH] for p in places])
        if fault == "tokens-out-of-order":
            y = y[torch.randperm(BATCH)]
        if fault == "unseeded-dropout-of-targets":
            y = torch.randint_like(y, 256)
        logits = model(x)
        if fault == "loss-of-first-token-only":
            loss = F.cross_entropy(logits[:, 0], y[:, 0])
        elif fault == "nan-from-log":
            loss = -torch.log(logits.softmax(-1).gather(-1, y.unsqueeze(-1)) - 1e-3).mean()
        else:
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
