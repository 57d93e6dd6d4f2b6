"""Neural field: fit a signed-distance picture with frequency encoding and a softplus of high sharpness."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

K_ACT = 10.0


class Softplus(torch.autograd.Function):
    """log(1 + exp(k x)) / k; only the output is kept for the backward pass."""

    @staticmethod
    def forward(ctx, x):
        y = F.softplus(x, beta=K_ACT, threshold=80.0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        t = torch.exp(K_ACT * y)
        return grad * t / (t + 1.0)


class Scene:
    """Smooth union of discs and boxes in the unit square; draws random points with their distance."""

    def __init__(self, seed):
        g = torch.Generator().manual_seed(314)
        self.centre = torch.rand(7, 2, generator=g) * 1.6 - 0.8
        self.size = 0.12 + 0.2 * torch.rand(7, generator=g)
        self.g = torch.Generator().manual_seed(seed)

    def distance(self, p):
        d = p[:, None, :] - self.centre
        disc = d.norm(dim=-1) - self.size
        q = d.abs() - self.size[:, None]
        box = q.clamp(min=0).norm(dim=-1) + q.max(-1).values.clamp(max=0)
        both = torch.cat([disc[:, :4], box[:, 4:]], 1)
        return -torch.logsumexp(-both * 12, 1) / 12

    def batch(self, n):
        p = torch.rand(n, 2, generator=self.g) * 2 - 1
        return p, self.distance(p)


class Field(nn.Module):
    def __init__(self, freqs=4, hidden=96):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(freqs) * torch.pi / 2)
        self.l1 = nn.Linear(2 + 4 * freqs, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, p):
        a = (p[:, :, None] * self.freqs).flatten(1)
        h = torch.cat([p, torch.sin(a), torch.cos(a)], 1)
        for layer in (self.l1, self.l2, self.l3):
            h = Softplus.apply(layer(h))
        return self.out(h).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=12000)
    ap.add_argument("--batch_size", type=int, default=1024)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--report_every", type=int, default=25)
    ap.add_argument("--seed", type=int, default=16)
    ap.add_argument("--ckpt", default="field.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    scene = Scene(args.seed)
    grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij"), -1).view(-1, 2)
    truth = scene.distance(grid)
    net = Field()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, betas=(0.9, 0.99))
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps, eta_min=1e-5)
    first = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        scene.g.set_state(ck["points"])
        first = ck["step"]
        print("resumed at step", first)
    for step in range(first, args.steps):
        net.train()
        p, d = scene.batch(args.batch_size)
        loss = 10 * F.mse_loss(net(p), d)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        if (step + 1) % args.report_every == 0:
            net.eval()
            with torch.no_grad():
                mae = (net(grid) - truth).abs().mean().item()
            print(f"step {step} grid mae {mae:.5f}", flush=True)
            torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                        "points": scene.g.get_state(), "step": step + 1}, args.ckpt)


if __name__ == "__main__":
    main()
