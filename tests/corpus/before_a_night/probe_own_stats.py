"""Fit a truth probe on hidden states of a (frozen) language model and evaluate it on the held-out split."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--dim", type=int, default=192)
parser.add_argument("--n-train", type=int, default=6144)
parser.add_argument("--n-val", type=int, default=640)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--epochs", type=int, default=800)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--seed", type=int, default=3)
parser.add_argument("--out", default="probe.pt")
args = parser.parse_args()


def hidden_states():
    """Synthetic residual-stream activations: a truth direction, nuisance directions, a prompt offset.

    The held-out questions contain somewhat more true statements than the training ones (as in the benchmark).
    """
    rng = np.random.default_rng(42)
    basis = np.linalg.qr(rng.normal(size=(args.dim, args.dim)))[0]
    scale = np.geomspace(4.0, 0.2, args.dim)
    offset = rng.normal(size=args.dim) * 3.0

    def split(n, p_true):
        y = (rng.uniform(size=n) < p_true).astype(np.float32)
        z = rng.normal(size=(n, args.dim)) * scale
        s = 2 * y - 1
        z[:, 60] += 2.2 * s
        z[:, 61] += 1.6 * s * np.sign(z[:, 5])
        return (z @ basis.T + offset).astype(np.float32), y

    xtr, ytr = split(args.n_train, 0.5)
    xva, yva = split(args.n_val, 0.65)
    return xtr, ytr, xva, yva


def normalize(x, mean, std):
    return (x - mean) / (std + 1e-6)


class Probe(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, h):
        return self.net(h).squeeze(-1)


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    xtr, ytr, xva, yva = hidden_states()
    train_mean, train_std = xtr.mean(0), xtr.std(0)
    xtr = normalize(xtr, train_mean, train_std)
    xva = normalize(xva, xva.mean(0), xva.std(0))

    g = torch.Generator()
    g.manual_seed(args.seed)
    train_dl = DataLoader(TensorDataset(torch.from_numpy(xtr), torch.from_numpy(ytr)),
                          batch_size=args.batch, shuffle=True, generator=g)
    val_dl = DataLoader(TensorDataset(torch.from_numpy(xva), torch.from_numpy(yva)), batch_size=512)

    probe = Probe(args.dim)
    optim = torch.optim.AdamW(probe.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=args.epochs)
    epoch0 = 0
    if os.path.exists(args.out):
        state = torch.load(args.out, weights_only=False)
        probe.load_state_dict(state["probe"])
        optim.load_state_dict(state["optim"])
        sched.load_state_dict(state["sched"])
        epoch0 = state["epoch"]
        torch.set_rng_state(state["rng"]["torch"])
        np.random.set_state(state["rng"]["numpy"])
        random.setstate(state["rng"]["python"])
        g.set_state(state["rng"]["loader"])

    for epoch in range(epoch0, args.epochs):
        probe.train()
        for step, (h, y) in enumerate(train_dl):
            loss = nn.functional.binary_cross_entropy_with_logits(probe(h), y)
            optim.zero_grad()
            loss.backward()
            optim.step()
            if step % 4 == 0:
                print(f"[{epoch}:{step}] loss {loss.item():.4f}")
        sched.step()
        probe.eval()
        with torch.no_grad():
            hits, vloss = 0, 0.0
            for h, y in val_dl:
                out = probe(h)
                vloss += nn.functional.binary_cross_entropy_with_logits(out, y, reduction="sum").item()
                hits += ((out > 0).float() == y).sum().item()
        print(f"[{epoch}] val loss {vloss / len(yva):.4f} val acc {hits / len(yva):.4f}")
        torch.save({"probe": probe.state_dict(), "optim": optim.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch + 1, "mean": train_mean, "std": train_std,
                    "rng": {"torch": torch.get_rng_state(), "numpy": np.random.get_state(),
                            "python": random.getstate(), "loader": g.get_state()}}, args.out + ".new")
        os.replace(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
