import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def transform_if_model_is_DDP(model):
    return model.module if isinstance(model, DDP) else model


def make_latents(n, seed):
    """8x8 latents: smooth ramps whose direction and offset follow a conditioning vector."""
    g = torch.Generator().manual_seed(seed)
    cond = torch.randn(n, 3, generator=g)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij")
    x = cond[:, 0, None, None] * xx + cond[:, 1, None, None] * yy + 0.5 * cond[:, 2, None, None]
    return TensorDataset((x + 0.1 * torch.randn(n, 8, 8, generator=g)).unsqueeze(1), cond)


class NoiseSchedule:
    def __init__(self, steps=50):
        self.steps = steps
        self.alphas = torch.cumprod(1 - torch.linspace(1e-3, 0.12, steps), 0)

    def add_noise(self, x, noise, t):
        a = self.alphas[t][:, None, None, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise


class UNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.temb = nn.Sequential(nn.Linear(4, c), nn.SiLU(), nn.Linear(c, c))
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.down = nn.Conv2d(c, c, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(c, c, 3, padding=1)
        self.up = nn.Conv2d(2 * c, c, 3, padding=1)
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t, cond):
        e = self.temb(torch.cat([t[:, None], cond], 1))[:, :, None, None]
        a = F.silu(self.inp(x) + e)
        b = F.silu(self.mid(F.silu(self.down(a) + e)))
        return self.out(F.silu(self.up(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))))


def step_loss(unet, sched, latents, cond, g):
    t = torch.randint(0, sched.steps, (len(latents),), generator=g)
    noise = torch.randn(latents.shape, generator=g)
    pred = unet(sched.add_noise(latents, noise, t), t / sched.steps, cond)
    return F.mse_loss(pred, noise)


def train(rank, args):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
    dist.init_process_group("gloo", rank=rank, world_size=args.num_processes)
    torch.manual_seed(args.seed)
    g = torch.Generator().manual_seed(args.seed + rank)

    train_dataset = make_latents(512, 0)
    sampler = DistributedSampler(train_dataset, seed=args.seed)
    train_dataloader = DataLoader(train_dataset, batch_size=args.train_batch_size, sampler=sampler)
    val = make_latents(128, 1).tensors
    sched = NoiseSchedule()

    unet = DDP(UNet())
    optimizer = torch.optim.AdamW(unet.parameters(), lr=args.learning_rate)

    for epoch in range(args.max_train_epochs):
        sampler.set_epoch(epoch)
        unet.train()
        loss_total = 0.0
        for latents, cond in train_dataloader:
            loss = step_loss(unet, sched, latents, cond, g)
            loss.backward()
            nn.utils.clip_grad_norm_(unet.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss_total += loss.item()
        unet.eval()
        with torch.no_grad():
            vl = step_loss(transform_if_model_is_DDP(unet), sched, *val, torch.Generator().manual_seed(5)).item()
        if rank == 0:
            print(f"epoch {epoch + 1}/{args.max_train_epochs} avr_loss={loss_total / len(train_dataloader):.4f} val={vl:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--train_batch_size", type=int, default=16)
    parser.add_argument("--max_train_epochs", type=int, default=5)
    parser.add_argument("--num_processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=9)
    args = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        args.port = s.getsockname()[1]
    mp.spawn(train, args=(args,), nprocs=args.num_processes)
