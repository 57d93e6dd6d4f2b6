"""Neural PDE surrogate: smoke density and velocity on a grid, next step from the current one."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N = 64


def simulate(n_traj, steps, seed):
    """Density carried by a slowly turning, decaying stream function flow; channels: density, vx, vy."""
    g = torch.Generator().manual_seed(seed)
    k = torch.fft.fftfreq(N, 1.0 / N)
    kx, ky = torch.meshgrid(k, k, indexing="ij")
    k2 = kx ** 2 + ky ** 2
    psi = torch.fft.fft2(torch.randn(n_traj, N, N, generator=g)) * torch.exp(-k2 / 6)
    rho = torch.fft.fft2(torch.randn(n_traj, N, N, generator=g)) * torch.exp(-k2 / 20)
    frames = []
    for _ in range(steps):
        vx, vy = torch.fft.ifft2(1j * ky * psi).real, torch.fft.ifft2(-1j * kx * psi).real
        r = torch.fft.ifft2(rho).real
        frames.append(torch.stack([r / 0.2, vx / 0.2, vy / 0.2], 1))
        for _ in range(2):
            gx, gy = torch.fft.ifft2(1j * kx * rho).real, torch.fft.ifft2(1j * ky * rho).real
            rho = (rho - 0.02 * torch.fft.fft2(vx * gx + vy * gy)) * torch.exp(-0.0005 * k2)
        psi = psi * torch.exp(-0.004 * k2)
    return torch.stack(frames, 1)


class Surrogate(nn.Module):
    def __init__(self, width=40, depth=3, patch=4):
        super().__init__()
        kw = dict(padding=1, padding_mode="circular")
        self.lift = nn.Conv2d(3, width, patch, stride=patch)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, **kw), nn.GELU(), nn.Conv2d(width, width, 3, **kw))
            for _ in range(depth))
        self.project = nn.Sequential(nn.Conv2d(width, 3 * patch ** 2, 1), nn.PixelShuffle(patch))

    def forward(self, x):
        h = self.lift(x)
        for layer in self.layers:
            h = h + layer(h)
        return x + self.project(F.gelu(h))


class PDEModel:
    def __init__(self, args):
        self.model = Surrogate()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-5)
        self.time_future = 3

    def rollout(self, x):
        preds = []
        for _ in range(self.time_future):
            x = self.model(x)
            preds.append(x)
        return torch.stack(preds, 1)

    def training_step(self, batch):
        x, y = batch
        pred = self.rollout(x)
        loss = F.mse_loss(pred, y)
        scalar_loss = F.mse_loss(pred[:, :, :1], y[:, :, :1])
        vector_loss = F.mse_loss(pred[:, :, 1:], y[:, :, 1:])
        return {"loss": loss, "scalar_loss": scalar_loss.detach(), "vector_loss": vector_loss.detach()}

    @torch.no_grad()
    def validation_step(self, batch):
        x, y = batch
        return F.mse_loss(self.rollout(x), y).item()


def training_epoch_end(outputs):
    keys = outputs[0].keys()
    return {k: torch.stack([o[k] for o in outputs]).mean().item() for k in keys}


def fit(module, args):
    train, valid = simulate(40, 20, 1), simulate(8, 20, 2)
    tf = module.time_future
    starts = [(i, t) for i in range(len(train)) for t in range(train.size(1) - tf)]
    vx, vy = valid[:, 0], valid[:, 1:1 + tf]
    n_batches = len(starts) // args.batch_size
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(module.optimizer, T_max=args.epochs * n_batches)
    epoch0, step0 = 0, 0
    if os.path.exists(args.ckpt):
        c = torch.load(args.ckpt)
        module.model.load_state_dict(c["model"])
        module.optimizer.load_state_dict(c["optimizer"])
        sched.load_state_dict(c["sched"])
        torch.set_rng_state(c["rng"])
        epoch0, step0 = c["epoch"], c["step"]

    def save(epoch, step):
        torch.save({"model": module.model.state_dict(), "optimizer": module.optimizer.state_dict(),
                    "sched": sched.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch, "step": step}, args.ckpt)

    for epoch in range(epoch0, args.epochs):
        order = torch.randperm(len(starts), generator=torch.Generator().manual_seed(args.seed + epoch)).tolist()
        module.model.train()
        outputs = []
        for step in range(step0 if epoch == epoch0 else 0, n_batches):
            pick = [starts[i] for i in order[step * args.batch_size:(step + 1) * args.batch_size]]
            x = torch.stack([train[i, t] for i, t in pick])
            y = torch.stack([train[i, t + 1:t + 1 + tf] for i, t in pick])
            out = module.training_step((x, y))
            module.optimizer.zero_grad()
            out["loss"].backward()
            module.optimizer.step()
            sched.step()
            outputs.append({k: v.detach() if k == "loss" else v for k, v in out.items()})
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {out['loss'].item():.5f}", flush=True)
            if (step + 1) % 20 == 0:
                save(epoch, step + 1)
        if outputs:
            logs = training_epoch_end(outputs)
            module.model.eval()
            logs["valid"] = module.validation_step((vx, vy))
            print(f"epoch {epoch} " + " ".join(f"{k} {v:.5f}" for k, v in logs.items()), flush=True)
        save(epoch + 1, 0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=100)
    p.add_argument("--batch_size", type=int, default=8)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=21)
    p.add_argument("--ckpt", default="pde_last.ckpt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    fit(PDEModel(args), args)


if __name__ == "__main__":
    main()
