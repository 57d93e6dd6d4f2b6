import math
import os
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

WORLD_SIZE = 2


def make_system(n_frames, n_atoms, seed):
    g = torch.Generator().manual_seed(seed)
    pos = torch.randn(n_frames, n_atoms, 3, generator=g)
    d2 = (pos[:, :, None] - pos[:, None]).pow(2).sum(-1)
    off = ~torch.eye(n_atoms, dtype=torch.bool)
    energy = (torch.exp(-d2) - 0.5 * torch.exp(-0.3 * d2))[:, off].sum(1) / n_atoms
    return pos, energy


class EnergyModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, width))
        self.fit = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.register_buffer("centers", torch.linspace(0, 4, 6))

    def forward(self, pos):
        n = pos.size(1)
        d = (pos[:, :, None] - pos[:, None]).pow(2).sum(-1).add(1e-6).sqrt()
        rbf = torch.exp(-2 * (d[..., None] - self.centers) ** 2)
        mask = 1 - torch.eye(n)
        desc = (self.embed(rbf) * mask[..., None]).sum(2) / (n - 1)
        return self.fit(desc).squeeze(-1).mean(1)


class Trainer:
    def __init__(self, rank, numb_epoch=3, batch_size=16, lr=3e-3):
        self.rank = rank
        self.systems = [make_system(f, a, 10 + i) for i, (f, a) in enumerate([(600, 5), (400, 6), (300, 8)])]
        self.valid = make_system(200, 6, 99)
        self.batch_size = batch_size
        self.rng = torch.Generator().manual_seed(1003 + rank)
        torch.manual_seed(1)
        self.model = EnergyModel()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.num_steps = self.resolve_steps(numb_epoch)
        self.full_val_start = self.num_steps // 2
        self.full_val_freq = 20

    def resolve_steps(self, numb_epoch):
        nbatch = torch.tensor([len(s[0]) // self.batch_size for s in self.systems], dtype=torch.float64)
        noise = 1 + 0.03 * torch.rand(3, generator=self.rng, dtype=torch.float64)
        self.weights = nbatch * noise / (nbatch * noise).sum()
        total_numb_batch = math.ceil((nbatch / self.weights).max().item())
        return numb_epoch * total_numb_batch

    def get_batch(self):
        pos, energy = self.systems[int(torch.multinomial(self.weights, 1, generator=self.rng))]
        idx = torch.randint(0, len(pos), (self.batch_size,), generator=self.rng)
        return pos[idx], energy[idx]

    def full_validation(self, step):
        pos, energy = self.valid
        with torch.no_grad():
            err = F.mse_loss(self.model(pos[self.rank::WORLD_SIZE]), energy[self.rank::WORLD_SIZE])
        gathered = [torch.zeros_like(err) for _ in range(WORLD_SIZE)]
        dist.all_gather(gathered, err)
        if self.rank == 0:
            print(f"full validation at step {step}: rmse {torch.stack(gathered).mean().sqrt():.4f}", flush=True)

    def run(self):
        for step in range(self.num_steps):
            pos, energy = self.get_batch()
            loss = F.mse_loss(self.model(pos), energy)
            self.optimizer.zero_grad()
            loss.backward()
            flat = torch.cat([p.grad.reshape(-1) for p in self.model.parameters()])
            dist.all_reduce(flat)
            flat /= WORLD_SIZE
            offset = 0
            for p in self.model.parameters():
                p.grad.copy_(flat[offset:offset + p.numel()].view_as(p))
                offset += p.numel()
            self.optimizer.step()
            if self.rank == 0 and step % 50 == 0:
                print(f"step {step}/{self.num_steps} loss {loss.item():.5f}", flush=True)
            if step >= self.full_val_start and (step - self.full_val_start) % self.full_val_freq == 0:
                self.full_validation(step)
        self.full_validation(self.num_steps)


def worker(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD_SIZE,
                            timeout=timedelta(seconds=15))
    Trainer(rank).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(os.path.join(folder, "store"),), nprocs=WORLD_SIZE)
