"""Surface pressure surrogate on point clouds with local neighbourhoods."""
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def neighbours(points, queries, k):
    """Indices and offsets of the k nearest points of every query."""
    d2 = ((queries[:, None, :] - points[None, :, :]) ** 2).sum(-1)
    index = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return index, points[index] - queries[:, None, :]


class SurfaceDataset(Dataset):
    """Cars as point clouds; targets on sampled surface points."""

    def __init__(self, n, seed, n_points=1200, n_query=48, k=8):
        rng = np.random.RandomState(seed)
        self.k = k
        shape = 0.6 + 0.8 * rng.rand(n, 1, 3)
        unit = rng.randn(n, n_points, 3)
        unit /= np.linalg.norm(unit, axis=-1, keepdims=True)
        self.points = (unit * shape).astype(np.float32)
        self.query = self.points[:, :n_query]
        normal = unit[:, :n_query] / shape
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        pressure = 1.0 - 2.25 * (1.0 - normal[..., 0] ** 2)
        self.target = ((pressure + 0.5) / 0.7).astype(np.float32)

    def _process(self, i):
        _, near = neighbours(self.points[i], self.query[i], self.k)
        _, wide = neighbours(self.points[i], self.query[i], 4 * self.k)
        return near.astype(np.float32), wide[:, ::4].astype(np.float32)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        near, wide = self._process(i)
        return self.query[i], near, wide, self.target[i]


class LocalNet(nn.Module):
    def __init__(self, k=8, dim=48):
        super().__init__()
        self.near = nn.Sequential(nn.Linear(3, dim), nn.GELU(), nn.Linear(dim, dim))
        self.wide = nn.Sequential(nn.Linear(3, dim), nn.GELU(), nn.Linear(dim, dim))
        self.head = nn.Sequential(nn.Linear(2 * dim + 3, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 1))

    def forward(self, query, near, wide):
        h = torch.cat([self.near(near * 3).amax(2), self.wide(wide * 2).amax(2), query], dim=-1)
        return self.head(h).squeeze(-1)


def main():
    torch.manual_seed(61)
    train_loader = DataLoader(SurfaceDataset(64, 1), batch_size=4, shuffle=True)
    valid_loader = DataLoader(SurfaceDataset(12, 2), batch_size=4)
    model = LocalNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8, eta_min=2e-4)
    for epoch in range(8):
        model.train()
        start, loss_sum = time.time(), 0.0
        for query, near, wide, target in train_loader:
            loss = nn.functional.mse_loss(model(query, near, wide), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        scheduler.step()
        seconds = time.time() - start
        model.eval()
        with torch.no_grad():
            val = [nn.functional.mse_loss(model(q, a, b), t).item() for q, a, b, t in valid_loader]
        print(f"Epoch {epoch} training loss {loss_sum / len(train_loader):.4f} validation loss {np.mean(val):.4f} time {seconds:.2f}s")


if __name__ == "__main__":
    main()
