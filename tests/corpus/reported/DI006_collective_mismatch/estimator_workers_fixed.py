import os
import socket
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

WORLD, EPOCHS = 2, 4


def make_shard(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    w = torch.randn(12, generator=torch.Generator().manual_seed(9))
    y = torch.tanh(x @ w / 2) + 0.5 * x[:, 0] * x[:, 1] + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(x, y.unsqueeze(1))


class TorchRunner:
    def __init__(self, rank):
        self.rank = rank
        torch.manual_seed(0)
        self.model = DDP(nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        shard = make_shard(672 if rank == 0 else 640, 100 + rank)
        self.loader = DataLoader(shard, batch_size=32, shuffle=True)
        self.valid = make_shard(256, 7).tensors

    def train_epoch(self):
        self.model.train()
        total = 0.0
        with self.model.join():
            for x, y in self.loader:
                loss = F.mse_loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
        return total / len(self.loader)

    def reduce_stats(self, value):
        stats = [torch.zeros(1) for _ in range(WORLD)]
        dist.all_gather(stats, torch.tensor([value]))
        return torch.stack(stats).mean().item()

    def validate(self):
        self.model.eval()
        x, y = self.valid
        with torch.no_grad():
            return F.mse_loss(self.model.module(x), y).item()


def worker(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(seconds=25))
    runner = TorchRunner(rank)
    for epoch in range(EPOCHS):
        loss = runner.reduce_stats(runner.train_epoch())
        val = runner.validate()
        if rank == 0:
            print(f"epoch {epoch} train {loss:.4f} valid {val:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(worker, args=(port,), nprocs=WORLD)
