"""Message passing network for energies and per-atom forces of small clusters."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

N_ATOMS, N_TYPES, CUTOFF = 14, 4, 4.0


def make_clusters(n, seed):
    """Random clusters with a Morse pair potential whose depth depends on the two elements."""
    table = np.random.default_rng(12).uniform(0.3, 1.2, size=(N_TYPES, N_TYPES))
    table = (table + table.T) / 2
    rng = np.random.default_rng(seed)
    z = rng.integers(0, N_TYPES, size=(n, N_ATOMS))
    pos = np.empty((n, N_ATOMS, 3))
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3) * 1.5
    for i in range(n):
        pos[i] = grid[rng.permutation(27)[:N_ATOMS]] + 0.2 * rng.normal(size=(N_ATOMS, 3))
    vec = pos[:, :, None] - pos[:, None]
    dist = np.linalg.norm(vec, axis=-1) + 10 * np.eye(N_ATOMS)
    depth = table[z[:, :, None], z[:, None]]
    e = np.exp(-1.2 * (dist - 1.6))
    energy = 0.5 * (depth * (e ** 2 - 2 * e) * (dist < 9)).sum((1, 2))
    slope = depth * (-2.4 * e ** 2 + 2.4 * e) * (dist < 9)
    forces = -(slope[..., None] * vec / dist[..., None]).sum(2)
    return [torch.tensor(z), *(torch.tensor(a, dtype=torch.float32) for a in (pos, energy, forces))]


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.lin = nn.Linear(dim, dim)
        self.update = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, x, rbf, mask):
        w = self.filter(rbf) * mask
        return x + self.update((w * self.lin(x).unsqueeze(1)).sum(2))


class ClusterNet(nn.Module):
    def __init__(self, dim=64, n_rbf=20, layers=3):
        super().__init__()
        self.embed = nn.Embedding(N_TYPES, dim)
        self.register_buffer("centers", torch.linspace(0.6, CUTOFF, n_rbf))
        self.layers = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(layers))
        self.energy = nn.Sequential(nn.Linear(dim, 64), nn.SiLU(), nn.Linear(64, 1))
        self.pair = nn.Sequential(nn.Linear(2 * dim + n_rbf, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, z, pos):
        vec = pos.unsqueeze(2) - pos.unsqueeze(1)
        dist = (vec.pow(2).sum(-1, keepdim=True) + 1e-9).sqrt()
        mask = ((dist < CUTOFF) & ~torch.eye(N_ATOMS, dtype=torch.bool).unsqueeze(-1)).float()
        rbf = torch.exp(-8 * (dist - self.centers) ** 2)
        x = self.embed(z)
        for layer in self.layers:
            x = layer(x, rbf, mask)
        n = N_ATOMS
        both = x.unsqueeze(2) + x.unsqueeze(1), x.unsqueeze(2) * x.unsqueeze(1)
        size = self.pair(torch.cat([*(b.expand(-1, n, n, -1) for b in both), rbf], -1))
        forces = (size * mask * vec / dist).sum(2)
        return {"energy": self.energy(x).sum(1).squeeze(-1), "forces": forces}


class Trainer:
    def __init__(self, args):
        self.args = args
        train, val = make_clusters(480, 1), make_clusters(720, 2)
        self.mean, self.std, self.f_std = train[2].mean(), train[2].std(), train[3].std()
        self.gen = torch.Generator()
        self.train_loader = DataLoader(TensorDataset(*train), args.batch_size, shuffle=True, generator=self.gen)
        self.val_loader = DataLoader(TensorDataset(*val), args.eval_batch_size)
        self.model = ClusterNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-5)
        self.start = 0
        if os.path.exists(args.checkpoint):
            ck = torch.load(args.checkpoint)
            self.model.load_state_dict(ck["model"])
            self.optimizer.load_state_dict(ck["optimizer"])
            self.start = ck["epoch"] + 1

    def compute_loss(self, out, energy, forces):
        return (F.l1_loss(out["energy"], (energy - self.mean) / self.std)
                + self.args.force_coefficient * F.l1_loss(out["forces"], forces / self.f_std))

    def train(self):
        for epoch in range(self.start, self.args.max_epochs):
            self.gen.manual_seed(self.args.seed + epoch)
            self.model.train()
            for i, (z, pos, energy, forces) in enumerate(self.train_loader):
                loss = self.compute_loss(self.model(z, pos), energy, forces)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
                self.optimizer.step()
                if i % 5 == 0:
                    print(f"epoch {epoch} step {i} loss {loss.item():.4f}", flush=True)
            print(f"epoch {epoch} val " + " ".join(f"{k} {v:.4f}" for k, v in self.validate().items()), flush=True)
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": epoch},
                       self.args.checkpoint)

    def validate(self):
        self.model.eval()
        outputs, targets = [], []
        for z, pos, energy, forces in self.val_loader:
            outputs.append(self.model(z, pos))
            targets.append((energy, forces))
        e = torch.cat([o["energy"] for o in outputs]) * self.std + self.mean
        f = torch.cat([o["forces"] for o in outputs]) * self.f_std
        return {"energy_mae": (e - torch.cat([t[0] for t in targets])).abs().mean().item(),
                "forces_mae": (f - torch.cat([t[1] for t in targets])).abs().mean().item()}


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--max-epochs", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--eval-batch-size", type=int, default=48)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--force-coefficient", type=float, default=2.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--checkpoint", default="clusternet.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    Trainer(args).train()
