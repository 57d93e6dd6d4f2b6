"""Train an MLP on a census-like income table (binary target)."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=600)
    p.add_argument("--batch-size", type=int, default=640)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--seed", type=int, default=1234)
    p.add_argument("--ckpt", default="census.pt")
    return p.parse_args()


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, n)
    hours = np.clip(rng.normal(40, 11, n), 1, 90)
    edu = rng.integers(1, 17, n).astype(np.float64)
    gain = rng.gamma(1.0, 900.0, n)
    weight = rng.normal(190000, 60000, n)
    occ = rng.integers(0, 10, n)
    work = rng.integers(0, 6, n)
    married = rng.integers(0, 2, n)
    occ_w = np.linspace(-1.5, 1.5, 10)
    z = (0.35 * (edu - 9) + 0.05 * (hours - 40) + 0.0006 * (gain - 900) + occ_w[occ]
         + 1.2 * (married - 0.5) - 0.002 * (age - 48) ** 2 + 0.6)
    y = (z + 0.15 * rng.normal(size=n) > 0).astype(np.float32)
    num = np.stack([age, hours, edu, gain, weight], 1)
    cat = np.concatenate([np.eye(10)[occ], np.eye(6)[work], np.eye(2)[married]], 1)
    return num.astype(np.float32), cat.astype(np.float32), y


class CensusNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.fc1(x))
        h = torch.nn.functional.gelu(self.fc2(h))
        return torch.sigmoid(self.fc3(h)).squeeze(1)


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    loss, correct, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += criterion(out, y).item() * len(y)
        correct += ((out > 0).float() == y).sum().item()
        n += len(y)
    model.train()
    return loss / n, correct / n


def main():
    args = parse()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    num, cat, y = make_table(20000, seed=7)
    tr, va = slice(0, 16000), slice(16000, 20000)
    mean, std = num[tr].mean(0), num[tr].std(0)
    x = np.concatenate([(num - mean) / std, cat], 1).astype(np.float32)
    train = TensorDataset(torch.from_numpy(x[tr]), torch.from_numpy(y[tr]))
    val = TensorDataset(torch.from_numpy(x[va]), torch.from_numpy(y[va]))
    gen = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(val, 2000)

    model = CensusNet(x.shape[1], args.hidden)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))

    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt, weights_only=False)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        torch.set_rng_state(ck["torch_rng"])
        np.random.set_state(ck["numpy_rng"])
        random.setstate(ck["python_rng"])
        gen.set_state(ck["loader_rng"])
        start = ck["epoch"]
        print(f"resumed at epoch {start}")

    for epoch in range(start, args.epochs):
        total = 0.0
        for i, (xb, yb) in enumerate(train_loader):
            loss = criterion(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
            if i % 5 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f}")
        vl, va_acc = evaluate(model, val_loader, criterion)
        print(f"epoch {epoch} train {total / len(train_loader):.4f} val {vl:.4f} acc {va_acc:.4f}")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                 "scheduler": scheduler.state_dict(), "epoch": epoch + 1,
                 "torch_rng": torch.get_rng_state(), "numpy_rng": np.random.get_state(),
                 "python_rng": random.getstate(), "loader_rng": gen.get_state()}
        torch.save(state, args.ckpt + ".tmp")
        os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()
