import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_points(n, seed):
    """12x12 images with one bright blob in each half; the target is the pair of blob centres."""
    g = torch.Generator().manual_seed(seed)
    c = torch.rand(n, 2, 2, generator=g) * 0.7 + 0.15
    c[:, :, 0] = c[:, :, 0] * 0.5 + torch.tensor([0.0, 0.5])
    grid = (torch.arange(12) + 0.5) / 12
    dx = (grid[None, None, None, :] - c[:, :, 0, None, None]) ** 2
    dy = (grid[None, None, :, None] - c[:, :, 1, None, None]) ** 2
    img = torch.exp(-(dx + dy) / 0.015).sum(1, keepdim=True) * 3 - 0.3
    return TensorDataset(img + 0.1 * torch.randn(img.shape, generator=g), c)


class DecoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, q, mem):
        out, weights = self.attn(q, mem, mem)
        q = self.n1(q + out)
        return self.n2(q + self.ff(q)), weights


class Transformer(nn.Module):
    def __init__(self, d=32, heads=2, num_query=2, layers=1):
        super().__init__()
        self.pattern = nn.Embedding(num_query, d)
        self.adapt_pos1d = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.adapt_pos2d = nn.Sequential(nn.Linear(2, d), nn.ReLU(), nn.Linear(d, d))
        self.layers = nn.ModuleList(DecoderLayer(d, heads) for _ in range(layers))
        self.bbox = nn.Linear(d, 2)
        pos = (torch.arange(6) + 0.5) / 6
        yy, xx = torch.meshgrid(pos, pos, indexing="ij")
        self.register_buffer("grid", torch.stack([xx, yy], -1).view(-1, 2))

    def forward(self, feat):
        mem = feat.flatten(2).transpose(1, 2) + self.adapt_pos2d(self.grid)
        q = self.pattern.weight.expand(len(feat), -1, -1)
        for layer in self.layers:
            q, weights = layer(q, mem)
        reference = weights @ self.grid
        return reference + 0.2 * torch.tanh(self.bbox(q))


class AnchorDETR(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, d, 3, 2, 1))
        self.transformer = Transformer(d)

    def forward(self, x):
        return self.transformer(self.backbone(x))


def main_worker(rank, world_size, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    train_set, (vx, vy) = make_points(640, 0), make_points(128, 1).tensors
    sampler = DistributedSampler(train_set, seed=0)
    loader = DataLoader(train_set, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(AnchorDETR())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for samples, targets in loader:
            loss = F.l1_loss(model(samples), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val = F.l1_loss(model.module(vx), vy).item()
        if rank == 0:
            print(f"epoch {epoch}: loss_bbox {total / len(loader):.4f}  val {val:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free_port = s.getsockname()[1]
    mp.spawn(main_worker, args=(2, free_port), nprocs=2)
