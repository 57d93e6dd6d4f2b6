"""Jet tagging on several processes, checkpoint and validation once an epoch."""
import datetime
import os
import socket
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_jets(n, seed):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, 2, n)
    axis = rng.randn(n, 2, 2) * np.where(y, 1.0, 0.3)[:, None, None]
    prong = rng.randint(0, 2, (n, 12))
    eta_phi = axis[np.arange(n)[:, None], prong] + 0.35 * rng.randn(n, 12, 2)
    energy = np.sort(rng.exponential(1.0, (n, 12)), axis=1)[:, ::-1]
    x = np.concatenate([eta_phi, np.log(energy + 0.05)[..., None]], axis=-1)
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


class PairwiseTagger(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.pair = nn.Sequential(nn.Linear(6, dim), nn.LeakyReLU(), nn.Linear(dim, dim), nn.LeakyReLU())
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.LeakyReLU(), nn.Linear(dim, 2))

    def forward(self, x):
        n = x.size(1)
        a = x.unsqueeze(2).expand(-1, n, n, -1)
        b = x.unsqueeze(1).expand(-1, n, n, -1)
        pairs = torch.cat([a - b, (a - b).abs()], dim=-1)
        return self.out(self.pair(pairs).mean(dim=(1, 2)))


class Trainer:
    def __init__(self, rank, world, model, datasets, checkfile, num_epoch=3, batch_size=24, lr=3e-3):
        self.device_id, self.world = rank, world
        self.model = DistributedDataParallel(model)
        self.sampler = DistributedSampler(datasets["train"], world, rank, shuffle=True, seed=3)
        self.train_loader = DataLoader(datasets["train"], batch_size=batch_size, sampler=self.sampler, drop_last=True)
        self.valid_loader = DataLoader(datasets["valid"], batch_size=100)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.01)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.6)
        self.num_epoch, self.checkfile = num_epoch, checkfile

    def _save_checkpoint(self, epoch):
        torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, self.checkfile)

    def train(self):
        for epoch in range(self.num_epoch):
            self.sampler.set_epoch(epoch)
            loss = self.train_epoch()
            self.scheduler.step()
            if self.device_id <= 0:
                self._save_checkpoint(epoch)
                valid_loss, accuracy = self.predict()
                print(f"Epoch {epoch} train loss {loss:.4f} valid loss {valid_loss:.4f} accuracy {accuracy:.4f}", flush=True)
            dist.barrier()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.train_loader)

    def predict(self):
        model = self.model.module
        model.eval()
        losses, hits = [], []
        with torch.no_grad():
            for x, y in self.valid_loader:
                out = model(x)
                losses.append(nn.functional.cross_entropy(out, y).item())
                hits.append((out.argmax(1) == y).float().mean().item())
        return np.mean(losses), np.mean(hits)


def worker(rank, world, folder):
    torch.set_num_threads(1)
    torch.manual_seed(20)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=20))
    datasets = {"train": make_jets(2400, 1), "valid": make_jets(400, 2)}
    Trainer(rank, world, PairwiseTagger(), datasets, os.path.join(folder, "best.pt")).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(s.getsockname()[1])
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(2, folder), nprocs=2)
