import os
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, random_split
from torch.utils.data.distributed import DistributedSampler

WORLD = 2
CFG = dict(seed=1000, val_ratio=0.2, batch_size=32, epochs=8, lr=2e-3)


def set_seed(seed, process_index):
    seed = seed + process_index * 12345
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Demonstrations(Dataset):
    def __init__(self, n=1280, horizon=4):
        g = torch.Generator().manual_seed(77)
        self.obs = torch.randn(n, 12, generator=g)
        w1 = torch.randn(12, 24, generator=g) / 12 ** 0.5
        w2 = torch.randn(24, horizon * 3, generator=g) / 24 ** 0.5
        self.actions = 2 * torch.tanh(self.obs @ w1) @ w2 + 0.05 * torch.randn(n, horizon * 3, generator=g)

    def __len__(self):
        return len(self.obs)

    def __getitem__(self, i):
        return self.obs[i], self.actions[i]


def make_dataset(cfg):
    dataset = Demonstrations()
    val_size = int(len(dataset) * cfg["val_ratio"])
    return random_split(dataset, [len(dataset) - val_size, val_size])


class ActionHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU())
        self.noise = nn.Dropout(0.05)
        self.out = nn.Linear(128, 12)

    def forward(self, obs):
        return self.out(self.noise(self.trunk(obs)))


@torch.no_grad()
def validate(policy, loader):
    policy.eval()
    stats = torch.zeros(2)
    for obs, act in loader:
        stats += torch.tensor([nn.functional.mse_loss(policy(obs), act).item(), 1.0])
    dist.all_reduce(stats)
    policy.train()
    return (stats[0] / stats[1]).item()


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    set_seed(CFG["seed"], rank)

    train_set, val_set = make_dataset(CFG)
    sampler = DistributedSampler(train_set, WORLD, rank, seed=CFG["seed"], drop_last=True)
    train_loader = DataLoader(train_set, batch_size=CFG["batch_size"], sampler=sampler)
    val_sampler = DistributedSampler(val_set, WORLD, rank, shuffle=False)
    val_loader = DataLoader(val_set, batch_size=64, sampler=val_sampler)

    policy = DistributedDataParallel(ActionHead())
    optimizer = torch.optim.AdamW(policy.parameters(), lr=CFG["lr"], weight_decay=1e-3)
    for epoch in range(CFG["epochs"]):
        sampler.set_epoch(epoch)
        running = 0.0
        for obs, act in train_loader:
            loss = nn.functional.mse_loss(policy(obs), act)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
            optimizer.step()
            running += loss.item()
        val = validate(policy.module, val_loader)
        if rank == 0:
            print(f"epoch {epoch} loss {running / len(train_loader):.4f} val_loss {val:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(31000 + os.getpid() % 2000,), nprocs=WORLD)
