"""Frame-level phone recogniser on filterbank features (bidirectional GRU)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PHONES = 30
MELS = 40


class SyntheticSpeech(Dataset):
    """Utterances of random phones; every phone has a mean spectrum and a length of 4 to 12 frames."""

    def __init__(self, n, frames, seed):
        rng = np.random.default_rng(1234)
        spectra = rng.normal(0, 1, (PHONES, MELS)).astype(np.float32)
        rng = np.random.default_rng(seed)
        self.x = np.zeros((n, frames, MELS), np.float32)
        self.y = np.zeros((n, frames), np.int64)
        for i in range(n):
            t = 0
            while t < frames:
                p = int(rng.integers(PHONES))
                d = int(rng.integers(4, 13))
                self.x[i, t:t + d] = spectra[p]
                self.y[i, t:t + d] = p
                t += d
        self.x += rng.normal(0, 1.0, self.x.shape).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i])


class Recogniser(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.proj = nn.Linear(MELS, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.rnn = nn.GRU(hidden, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.out = nn.Linear(2 * hidden, PHONES)

    def forward(self, x):
        h = F.relu(self.norm(self.proj(x)))
        h, _ = self.rnn(h)
        return self.out(h)


def evaluate(model, loader):
    model.eval()
    losses, hyps, refs = [], [], []
    for x, y in loader:
        logits = model(x)
        losses.append(F.cross_entropy(logits.flatten(0, 1), y.flatten()))
        hyps.append(logits)
        refs.append(y)
    loss = torch.stack(losses).mean().item()
    hyp = torch.cat(hyps).argmax(-1)
    ref = torch.cat(refs)
    model.train()
    return loss, (hyp != ref).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch-size", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=5)
    ap.add_argument("--save", default="asr_last.pt")
    args = ap.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set = SyntheticSpeech(240, 60, seed=10)
    valid_set = SyntheticSpeech(480, 60, seed=11)
    order = torch.Generator()
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=order)
    valid_loader = DataLoader(valid_set, args.batch_size)

    model = Recogniser()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=args.lr * 0.01)
    start, best = 0, float("inf")
    if os.path.exists(args.save):
        ck = torch.load(args.save)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        start, best = ck["epoch"], ck["best"]
        torch.set_rng_state(ck["rng"])
        print(f"resumed after epoch {start}")

    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed * 1000 + epoch)
        model.train()
        for step, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        scheduler.step()
        valid_loss, per = evaluate(model, valid_loader)
        best = min(best, valid_loss)
        print(f"epoch {epoch} valid loss {valid_loss:.4f} PER {100 * per:.2f}% best {best:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch + 1, "best": best,
                    "rng": torch.get_rng_state()}, args.save + ".tmp")
        os.replace(args.save + ".tmp", args.save)


if __name__ == "__main__":
    main()
