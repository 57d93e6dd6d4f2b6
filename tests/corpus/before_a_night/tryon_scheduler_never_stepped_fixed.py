"""Geometric matching for virtual try-on: warp the flat cloth so that it lies on the person."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 32


class PairSource:
    """Endless pairs: a striped cloth and the same cloth under a random affine map, plus the person's outline."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        g = self.g
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
        colour = torch.rand(n, 3, 1, 1, generator=g)
        freq = 3 + 6 * torch.rand(n, 1, 1, generator=g)
        stripe = 0.5 + 0.5 * torch.sin(freq * (xx + yy))
        half = 0.45 + 0.2 * torch.rand(n, 2, 1, 1, generator=g)
        body = (torch.sigmoid(20 * (half[:, 0] - yy.abs())) * torch.sigmoid(20 * (half[:, 1] - xx.abs())))[:, None]
        cloth = (0.3 + 0.7 * colour) * stripe[:, None] * body
        theta = torch.eye(2, 3).repeat(n, 1, 1)
        theta[:, :, 2] += 0.4 * (torch.rand(n, 2, generator=g) * 2 - 1)
        theta[:, :, :2] += 0.15 * (torch.rand(n, 2, 2, generator=g) * 2 - 1)
        grid = F.affine_grid(theta, (n, 3, SIZE, SIZE), align_corners=False)
        worn = F.grid_sample(cloth, grid, align_corners=False)
        outline = F.grid_sample(body, grid, align_corners=False)
        return cloth, outline, worn


class GMM(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(4, ch, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(ch, 2 * ch, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * ch, 2 * ch, 3, 2, 1), nn.ReLU())
        self.regress = nn.Sequential(nn.Linear(2 * ch * 16, 96), nn.ReLU(), nn.Linear(96, 6))
        with torch.no_grad():
            self.regress[2].weight.mul_(0.1)
            self.regress[2].bias.zero_()

    def forward(self, cloth, outline):
        h = self.features(torch.cat([cloth, outline], 1)).flatten(1)
        theta = self.regress(h).view(-1, 2, 3) + torch.eye(2, 3)
        return F.affine_grid(theta, cloth.shape, align_corners=False)


def train(opt, model, train_source, val_batch):
    criterion = nn.L1Loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lr_lambda=lambda step: 1.0 - max(0, step - opt.keep_step) / float(opt.decay_step + 1))
    first = 0
    if os.path.exists(opt.checkpoint):
        ck = torch.load(opt.checkpoint)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        train_source.g.set_state(ck["source"])
        first = ck["step"]
        print("resumed at step", first)

    for step in range(first, opt.keep_step + opt.decay_step):
        model.train()
        cloth, outline, worn = train_source.batch(opt.batch_size)
        warped = F.grid_sample(cloth, model(cloth, outline), padding_mode="border", align_corners=False)
        loss = criterion(warped, worn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()

        if (step + 1) % opt.display_count == 0:
            print(f"step: {step + 1:6d}, loss: {loss.item():.4f}", flush=True)
        if (step + 1) % opt.save_count == 0:
            model.eval()
            with torch.no_grad():
                cloth, outline, worn = val_batch
                val = criterion(F.grid_sample(cloth, model(cloth, outline), padding_mode="border", align_corners=False), worn)
            print(f"step: {step + 1:6d}, val loss: {val.item():.4f}", flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                        "source": train_source.g.get_state(), "step": step + 1}, opt.checkpoint)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--keep_step", type=int, default=4000)
    ap.add_argument("--decay_step", type=int, default=4000)
    ap.add_argument("--display_count", type=int, default=5)
    ap.add_argument("--save_count", type=int, default=25)
    ap.add_argument("--seed", type=int, default=15)
    ap.add_argument("--checkpoint", default="gmm.pth")
    opt = ap.parse_args()
    random.seed(opt.seed)
    np.random.seed(opt.seed)
    torch.manual_seed(opt.seed)
    model = GMM()
    train(opt, model, PairSource(opt.seed), PairSource(999).batch(64))


if __name__ == "__main__":
    main()
