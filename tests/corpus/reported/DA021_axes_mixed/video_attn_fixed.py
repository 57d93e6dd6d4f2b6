"""Video inpainting on synthetic clips.

In every frame one lamp (a small patch, marked in the lamp channel) has the colour of that moment, and a
hole (marked in the hole channel) must be painted with it. Everything else stays as it is.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class LampClips(Dataset):
    def __init__(self, num_clips, frames=4, size=12, seed=0):
        rng = np.random.default_rng(seed)
        self.x = np.zeros((num_clips, 5, frames, size, size), np.float32)
        self.y = np.zeros((num_clips, 3, frames, size, size), np.float32)
        for n in range(num_clips):
            coarse = rng.uniform(-1, 1, (3, frames, size // 3, size // 3))
            background = coarse.repeat(3, axis=2).repeat(3, axis=3)
            hole_h, hole_w = rng.integers(4, 7, 2)
            for t in range(frames):
                colour = rng.uniform(-1, 1, 3)
                frame = background[:, t].copy()
                hy, hx = rng.integers(0, size - hole_h + 1), rng.integers(0, size - hole_w + 1)
                while True:
                    ly, lx = rng.integers(0, size - 1, 2)
                    if not (hy - 2 < ly < hy + hole_h and hx - 2 < lx < hx + hole_w):
                        break
                frame[:, ly:ly + 2, lx:lx + 2] = colour[:, None, None]
                target = frame.copy()
                target[:, hy:hy + hole_h, hx:hx + hole_w] = colour[:, None, None]
                frame[:, hy:hy + hole_h, hx:hx + hole_w] = 0.0
                self.x[n, :3, t] = frame
                self.x[n, 3, t, ly:ly + 2, lx:lx + 2] = 1.0
                self.x[n, 4, t, hy:hy + hole_h, hx:hx + hole_w] = 1.0
                self.y[n, :, t] = target

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i])


def normalize(channels, groups=8):
    return nn.GroupNorm(groups, channels, eps=1e-6)


class ResnetBlock3D(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm1, self.norm2 = normalize(channels), normalize(channels)
        self.conv1 = nn.Conv3d(channels, channels, (1, 3, 3), padding=(0, 1, 1))
        self.conv2 = nn.Conv3d(channels, channels, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return x + h


class AttnBlock3D(nn.Module):
    """Attention inside every frame."""

    def __init__(self, channels):
        super().__init__()
        self.norm = normalize(channels)
        self.q = nn.Conv3d(channels, channels, 1)
        self.k = nn.Conv3d(channels, channels, 1)
        self.v = nn.Conv3d(channels, channels, 1)
        self.proj_out = nn.Conv3d(channels, channels, 1)

    def forward(self, x):
        h_ = self.norm(x)
        q = self.q(h_)
        k = self.k(h_)
        v = self.v(h_)

        # compute attention
        b, c, t, h, w = q.shape
        q = q.permute(0, 2, 1, 3, 4)
        q = q.reshape(b * t, c, h * w)
        q = q.permute(0, 2, 1)  # b,hw,c
        k = k.permute(0, 2, 1, 3, 4)
        k = k.reshape(b * t, c, h * w)  # b,c,hw
        w_ = torch.bmm(q, k)  # b,hw,hw    w[b,i,j]=sum_c q[b,i,c]k[b,c,j]
        w_ = w_ * (int(c) ** (-0.5))
        w_ = F.softmax(w_, dim=2)

        # attend to values
        v = v.permute(0, 2, 1, 3, 4)
        v = v.reshape(b * t, c, h * w)
        w_ = w_.permute(0, 2, 1)  # b,hw,hw (first hw of k, second of q)
        h_ = torch.bmm(v, w_)  # b, c,hw (hw of q) h_[b,c,j] = sum_i v[b,c,i] w_[b,i,j]
        h_ = h_.reshape(b, t, c, h, w)
        h_ = h_.permute(0, 2, 1, 3, 4)

        return x + self.proj_out(h_)


class Inpainter(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.conv_in = nn.Conv3d(5, channels, (1, 3, 3), padding=(0, 1, 1))
        self.encoder = ResnetBlock3D(channels)
        self.attn1 = AttnBlock3D(channels)
        self.middle = ResnetBlock3D(channels)
        self.attn2 = AttnBlock3D(channels)
        self.decoder = ResnetBlock3D(channels)
        self.norm_out = normalize(channels)
        self.conv_out = nn.Conv3d(channels, 3, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x):
        h = self.encoder(self.conv_in(x))
        h = self.middle(self.attn1(h))
        h = self.decoder(self.attn2(h))
        return x[:, :3] + self.conv_out(F.silu(self.norm_out(h)))


def hole_error(pred, target, x):
    hole = x[:, 4:5]
    return ((pred - target).abs() * hole).sum() / (3 * hole.sum())


def evaluate(model, loader):
    model.eval()
    mse, err = [], []
    with torch.no_grad():
        for x, y in loader:
            pred = model(x)
            mse.append(F.mse_loss(pred, y).item())
            err.append(hole_error(pred, y, x).item())
    model.train()
    return np.mean(mse), np.mean(err)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clips", type=int, default=1440)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=17)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    train = DataLoader(LampClips(args.clips, seed=100), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(LampClips(160, seed=200), 32)
    model = Inpainter()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    total = args.epochs * len(train)
    warm = total // 20
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / warm) * (0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * min(s, total) / total))))

    model.train()
    start, step = time.time(), 0
    for epoch in range(args.epochs):
        for x, y in train:
            loss = F.mse_loss(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 50 == 0:
                print(f"step {step:4d} | loss {loss.item():.5f} | lr {sched.get_last_lr()[0]:.2e}")
        mse, err = evaluate(model, val)
        print(f"epoch {epoch} | val mse {mse:.5f} | psnr {10 * np.log10(4.0 / mse):.2f} dB | "
              f"error inside the holes {err:.4f} | {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
