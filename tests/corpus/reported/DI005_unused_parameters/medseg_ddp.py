import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

T = 50


def schedule():
    betas = torch.linspace(1e-3, 0.12, T)
    return torch.cumprod(1 - betas, 0)


class UNetDenoiser(nn.Module):
    """Predicts the clean mask from the noisy mask, the image and the time."""

    def __init__(self, c=16):
        super().__init__()
        self.time_embed = nn.Sequential(nn.Linear(2, c), nn.SiLU(), nn.Linear(c, 2 * c))
        self.inp = nn.Conv2d(2, c, 3, padding=1)
        self.down = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.high_way = nn.Conv2d(2 * c, c, 1)
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Conv2d(2 * c, 1, 3, padding=1)

    def forward(self, x, image, t):
        phase = t.float() / T
        emb = self.time_embed(torch.stack([torch.sin(3 * phase), torch.cos(3 * phase)], 1))
        h0 = F.silu(self.inp(torch.cat([x, image], 1)))
        h = F.silu(self.down(h0)) + emb[:, :, None, None]
        h = F.silu(self.middle(h))
        h = F.silu(self.up(h))
        return self.out(torch.cat([h, h0], 1))


def lesions(n, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    c = 4 + 8 * torch.rand(n, 2, 1, 1, generator=g)
    rad = 2 + 2 * torch.rand(n, 1, 1, generator=g)
    r = torch.arange(size, dtype=torch.float32)
    d = ((r[None, :, None] - c[:, 0]) ** 2 + (r[None, None, :] - c[:, 1]) ** 2).sqrt()
    mask = (d < rad).float()
    image = mask * 1.6 - 0.4 + 0.7 * torch.randn(n, size, size, generator=g)
    return TensorDataset(image.unsqueeze(1), mask.unsqueeze(1) * 2 - 1)


def train(rank, world, port, epochs=5):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(10)
    abar = schedule()
    data = lesions(512, 1)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    val_image, val_mask = lesions(64, 2).tensors
    model = DDP(UNetDenoiser())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    torch.manual_seed(100 + rank)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for image, mask in loader:
            t = torch.randint(0, T, (len(mask),))
            a = abar[t].view(-1, 1, 1, 1)
            x_t = a.sqrt() * mask + (1 - a).sqrt() * torch.randn_like(mask)
            pred = model(x_t, image, t)
            loss = F.mse_loss(pred, mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if rank == 0:
            with torch.no_grad():
                start = torch.randn(val_mask.shape, generator=torch.Generator().manual_seed(0))
                pred = model.module(start, val_image, torch.full((len(val_mask),), T - 1))
                inter = ((pred > 0) & (val_mask > 0)).sum().item()
                dice = 2 * inter / max(((pred > 0).sum() + (val_mask > 0).sum()).item(), 1)
            print(f"epoch {epoch} loss {total / len(loader):.4f} val dice {dice:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(train, args=(2, port), nprocs=2)
