"""Predict a material property from its chemical composition (weighted element embeddings)."""
import argparse
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

N_ELEM = 60


class CompositionData(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        latent = rng.normal(size=(N_ELEM, 4))
        self.elems = np.stack([rng.choice(N_ELEM, 4, replace=False) for _ in range(n)])
        w = rng.dirichlet(np.ones(4) * 2.0, size=n)
        self.weights = w.astype(np.float32)
        mix = (latent[self.elems] * w[..., None]).sum(1)
        y = mix[:, 0] * 2 + np.tanh(2 * mix[:, 1]) + mix[:, 2] * mix[:, 3]
        self.targets = (y + 0.02 * rng.normal(size=n)).astype(np.float32)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return torch.from_numpy(self.elems[i]), torch.from_numpy(self.weights[i]), torch.tensor(self.targets[i])


class Roost(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.embed = nn.Embedding(N_ELEM, dim)
        self.message = nn.Sequential(nn.Linear(2 * dim + 1, 128), nn.SiLU(), nn.Linear(128, dim))
        self.out = nn.Sequential(nn.Linear(dim, 128), nn.SiLU(), nn.Linear(128, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, elems, w):
        x = self.embed(elems)
        n = x.shape[1]
        a = x.unsqueeze(2).expand(-1, -1, n, -1)
        b = x.unsqueeze(1).expand(-1, n, -1, -1)
        wj = w[:, None, :, None].expand(-1, n, -1, 1)
        msg = (self.message(torch.cat([a, b, wj], -1)) * wj).sum(2)
        return self.out(((x + msg) * w.unsqueeze(-1)).sum(1)).squeeze(-1)


class Normalizer:
    def fit(self, y):
        self.mean, self.std = y.mean(), y.std()

    def norm(self, y):
        return (y - self.mean) / self.std

    def denorm(self, y):
        return y * self.std + self.mean


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=600)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--val-size", type=float, default=0.2)
    p.add_argument("--data-seed", type=int, default=0)
    p.add_argument("--run-id", type=int, default=1)
    args = p.parse_args()
    random.seed(args.run_id)
    np.random.seed(args.run_id)
    torch.manual_seed(args.run_id)

    dataset = CompositionData(3000, args.data_seed)
    order = np.random.default_rng(args.data_seed).permutation(len(dataset))
    n_val = int(args.val_size * len(dataset))
    train_idx, val_idx = order[n_val:], order[:n_val]

    train_set = Subset(dataset, train_idx)
    val_set = Subset(dataset, val_idx)
    normalizer = Normalizer()
    normalizer.fit(torch.from_numpy(dataset.targets[train_idx]))

    gen = torch.Generator().manual_seed(args.run_id)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)
    print(f"train {len(train_set)} val {len(val_set)}")

    model = Roost()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-6)
    best = float("inf")
    for epoch in range(args.epochs):
        model.train()
        for step, (elems, w, y) in enumerate(train_loader):
            loss = nn.functional.mse_loss(model(elems, w), normalizer.norm(y))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            err = torch.cat([(normalizer.denorm(model(e, w)) - y).abs() for e, w, y in val_loader])
        mae = err.mean().item()
        print(f"epoch {epoch} val mae {mae:.4f}", flush=True)
        if mae < best:
            best = mae
            torch.save({"model": model.state_dict(), "mean": normalizer.mean, "std": normalizer.std}, "best-model.pt")


if __name__ == "__main__":
    main()
