"""Keyword recognition from synthetic speech-like spectrograms: conformer-style encoder, Noam optimizer."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FRAMES, MELS, WORDS = 48, 24, 10


def make_words(n, seed):
    """A word is a sequence of three 'phones' (formant pairs); speed, pitch and loudness vary."""
    lexicon = np.random.default_rng(8)
    phones = lexicon.uniform(2, MELS - 3, size=(7, 2))
    words = np.stack([lexicon.choice(7, 3, replace=False) for _ in range(WORDS)])
    rng = np.random.default_rng(seed)
    y = rng.integers(0, WORDS, n)
    x = np.zeros((n, FRAMES, MELS), np.float32)
    bins = np.arange(MELS)
    for i, w in enumerate(y):
        start, shift = int(rng.integers(0, 10)), rng.normal(0, 0.4)
        for ph in words[w]:
            length = int(rng.integers(8, 13))
            shape = sum(np.exp(-((bins - f - shift) / 1.3) ** 2) for f in phones[ph])
            x[i, start:start + length] += rng.uniform(0.7, 1.3) * shape
            start += length
    x += 0.25 * rng.normal(size=x.shape).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class Encoder(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv1d(MELS, dim, 3, stride=2, padding=1), nn.ReLU())
        self.pos = nn.Parameter(0.02 * torch.randn(FRAMES // 2, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, WORDS)

    def forward(self, x):
        x = self.subsample(x.transpose(1, 2)).transpose(1, 2) + self.pos
        return self.out(self.norm(self.layers(x)).mean(1))


class Noam:
    """Adam with the warm-up and inverse square root schedule of 'Attention is all you need'."""

    def __init__(self, params, model_size=64, factor=1.0, warm_step=100):
        self.optimizer = torch.optim.Adam(params, lr=0, betas=(0.9, 0.98), eps=1e-9)
        self._step = 0
        self.warmup, self.factor, self.model_size = warm_step, factor, model_size
        self._rate = 0.0

    def rate(self, step):
        return self.factor * self.model_size ** -0.5 * min(step ** -0.5, step * self.warmup ** -1.5)

    def step(self):
        self._step += 1
        self._rate = self.rate(self._step)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()

    def state_dict(self):
        return {"_step": self._step, "_rate": self._rate, "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state):
        self._step, self._rate = state["_step"], state["_rate"]
        self.optimizer.load_state_dict(state["optimizer"])


def save_checkpoint(path, model, optimizer, epoch):
    torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(),
                "rng": torch.get_rng_state(), "epoch": epoch}, path)


def load_checkpoint(path, model, optimizer):
    ck = torch.load(path)
    model.load_state_dict(ck["state_dict"])
    optimizer.load_state_dict(ck["optimizer"])
    torch.set_rng_state(ck["rng"])
    return ck["epoch"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--num-epochs", type=int, default=300)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--factor", type=float, default=0.12)
    p.add_argument("--warm-step", type=int, default=60)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--exp-dir", default="exp")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.exp_dir, exist_ok=True)

    train_x, train_y = make_words(640, 1)
    val_x, val_y = make_words(200, 2)
    mean, std = train_x.mean(), train_x.std()
    gen = torch.Generator()
    train_loader = DataLoader(TensorDataset((train_x - mean) / std, train_y), args.batch, shuffle=True, generator=gen)
    val_loader = DataLoader(TensorDataset((val_x - mean) / std, val_y), 100)
    model = Encoder()
    optimizer = Noam(model.parameters(), 64, args.factor, args.warm_step)
    latest = os.path.join(args.exp_dir, "latest.pt")
    start_epoch = 0
    if os.path.exists(latest):
        start_epoch = load_checkpoint(latest, model, optimizer) + 1

    for epoch in range(start_epoch, args.num_epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (x, y) in enumerate(train_loader):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f} lr {optimizer._rate:.2e}", flush=True)
        model.eval()
        with torch.no_grad():
            acc = np.mean([(model(x).argmax(1) == y).float().mean().item() for x, y in val_loader])
        print(f"epoch {epoch} val accuracy {acc:.3f}", flush=True)
        save_checkpoint(latest, model, optimizer, epoch)


if __name__ == "__main__":
    main()
