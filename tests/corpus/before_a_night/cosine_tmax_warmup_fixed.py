"""Denoising diffusion on 16 x 16 glyphs, class conditional, with warmup and cosine decay of the rate."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 16


def glyphs(n, seed):
    """Bars, crosses, rings and squares with jitter, in [-1, 1]."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(SIZE).float(), torch.arange(SIZE).float(), indexing="ij")
    y = torch.randint(0, 4, (n,), generator=g)
    out = torch.empty(n, 1, SIZE, SIZE)
    for i, c in enumerate(y.tolist()):
        cx, cy = 7.5 + 2 * torch.randn(2, generator=g)
        r = 3.5 + torch.rand(1, generator=g)
        dx, dy = (xx - cx).abs(), (yy - cy).abs()
        if c == 0:
            d = torch.maximum(dx - 1, dy - r)
        elif c == 1:
            d = torch.minimum(torch.maximum(dx - 0.7, dy - r), torch.maximum(dy - 0.7, dx - r))
        elif c == 2:
            d = ((dx ** 2 + dy ** 2).sqrt() - r).abs() - 0.8
        else:
            d = torch.maximum(dx, dy) - r + 0.5
        out[i, 0] = -torch.tanh(2 * d)
    return out, y


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(4, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Unet(nn.Module):
    def __init__(self, ch=24, emb=48):
        super().__init__()
        self.emb_dim = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(4, emb)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.d1 = ResBlock(ch, emb)
        self.down = nn.Conv2d(ch, ch, 4, 2, 1)
        self.mid1, self.mid2 = ResBlock(ch, emb), ResBlock(ch, emb)
        self.up = nn.ConvTranspose2d(ch, ch, 4, 2, 1)
        self.merge = nn.Conv2d(2 * ch, ch, 1)
        self.u1 = ResBlock(ch, emb)
        self.out = nn.Sequential(nn.GroupNorm(4, ch), nn.SiLU(), nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, x, t, y):
        half = self.emb_dim // 2
        w = torch.exp(-math.log(1000.0) * torch.arange(half) / half)
        a = t.unsqueeze(1) * 1000 * w
        e = F.silu(self.time(torch.cat([a.sin(), a.cos()], 1)) + self.label(y))
        h1 = self.d1(self.inp(x), e)
        h = self.mid2(self.mid1(self.down(h1), e), e)
        return self.out(self.u1(self.merge(torch.cat([self.up(h), h1], 1)), e))


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2).view(-1, 1, 1, 1), torch.sin(t * math.pi / 2).view(-1, 1, 1, 1)


def diffusion_loss(unet, x, y, gen=None):
    t = torch.rand(len(x), generator=gen) * 0.98 + 0.01
    noise = torch.randn(x.shape, generator=gen)
    a, s = alpha_sigma(t)
    return F.mse_loss(unet(a * x + s * noise, t, y), noise)


class Trainer:
    def __init__(self, unet, lr, warmup_steps, cosine_decay_max_steps):
        self.unet = unet
        self.optimizer = torch.optim.Adam(unet.parameters(), lr=lr, betas=(0.9, 0.99))
        warmup = torch.optim.lr_scheduler.LinearLR(self.optimizer, start_factor=0.02, total_iters=warmup_steps)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=cosine_decay_max_steps)
        self.scheduler = torch.optim.lr_scheduler.ChainedScheduler([warmup, cosine], optimizer=self.optimizer)
        self.step = 0

    def update(self, x, y):
        self.unet.train()
        loss = diffusion_loss(self.unet, x, y)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.step += 1
        return loss.item()

    @torch.no_grad()
    def validate(self, x, y):
        self.unet.eval()
        return diffusion_loss(self.unet, x, y, torch.Generator().manual_seed(0)).item()

    def save(self, path):
        torch.save({"unet": self.unet.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict(), "step": self.step, "rng": torch.get_rng_state()}, path)

    def load(self, path):
        c = torch.load(path, weights_only=False)
        self.unet.load_state_dict(c["unet"])
        self.optimizer.load_state_dict(c["optimizer"])
        self.scheduler.load_state_dict(c["scheduler"])
        self.step = c["step"]
        torch.set_rng_state(c["rng"])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=10000)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup-steps", type=int, default=50)
    p.add_argument("--save-every", type=int, default=20)
    p.add_argument("--seed", type=int, default=4)
    p.add_argument("--ckpt", default="glyph_ddpm.pt")
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    x, y = glyphs(1600, 1)
    vx, vy = glyphs(128, 2)
    trainer = Trainer(Unet(), a.lr, warmup_steps=a.warmup_steps, cosine_decay_max_steps=a.steps)
    if os.path.exists(a.ckpt):
        trainer.load(a.ckpt)
    per_epoch = len(x) // a.batch_size
    while trainer.step < a.steps:
        epoch, pos = divmod(trainer.step, per_epoch)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(a.seed + epoch))
        idx = order[pos * a.batch_size:(pos + 1) * a.batch_size]
        loss = trainer.update(x[idx], y[idx])
        if trainer.step % 5 == 0:
            print(f"step {trainer.step} loss {loss:.4f} lr {trainer.optimizer.param_groups[0]['lr']:.2e}", flush=True)
        if trainer.step % a.save_every == 0:
            print(f"step {trainer.step} valid loss {trainer.validate(vx, vy):.4f}", flush=True)
            trainer.save(a.ckpt)


if __name__ == "__main__":
    main()
