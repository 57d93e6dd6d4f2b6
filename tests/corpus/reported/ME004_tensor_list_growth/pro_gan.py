"""Progressive growing GAN on small procedural pictures."""
import argparse
import os
import time

import numpy as np
import torch as th
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def rss_mb():
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024


class Pictures(Dataset):
    """A coloured disc over a two-tone sky, 32x32, scaled to [-1, 1]."""

    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[:32, :32] / 31
        self.data = []
        for _ in range(n):
            top, low = np.array([-0.6, -0.2, 0.6]), np.array([0.1, 0.4, -0.4])
            img = top[:, None, None] * (1 - yy) + low[:, None, None] * yy
            img = img + 0.1 * rng.randn(3, 1, 1)
            cy, cx, r = rng.uniform(0.3, 0.7), rng.uniform(0.25, 0.75), rng.uniform(0.12, 0.25)
            disc = 1 / (1 + np.exp(40 * (np.hypot(yy - cy, xx - cx) - r)))
            img = img * (1 - disc) + np.array([0.9, 0.7, 0.1])[:, None, None] * disc
            self.data.append(np.clip(img, -1, 1).astype(np.float32))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


class PixelNorm(nn.Module):
    def forward(self, x):
        return x / th.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-8)


class Generator(nn.Module):
    def __init__(self, latent=24, ch=14, depth=3):
        super().__init__()
        self.initial = nn.Sequential(nn.ConvTranspose2d(latent, ch, 4), nn.LeakyReLU(0.2), PixelNorm())
        self.layers = nn.ModuleList([
            nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.LeakyReLU(0.2), PixelNorm()) for _ in range(depth)])
        self.rgb = nn.ModuleList([nn.Conv2d(ch, 3, 1) for _ in range(depth)])

    def forward(self, z, height, alpha):
        x = self.initial(z[:, :, None, None])
        prev = None
        for i in range(height + 1):
            prev = x
            x = self.layers[i](F.interpolate(x, scale_factor=2))
        out = self.rgb[height](x)
        if height > 0 and alpha < 1:
            old = F.interpolate(self.rgb[height - 1](prev), scale_factor=2)
            out = alpha * out + (1 - alpha) * old
        return out


class Discriminator(nn.Module):
    def __init__(self, ch=14, depth=3):
        super().__init__()
        self.rgb = nn.ModuleList([nn.Conv2d(3, ch, 1) for _ in range(depth)])
        self.layers = nn.ModuleList([
            nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.LeakyReLU(0.2), nn.AvgPool2d(2)) for _ in range(depth)])
        self.final = nn.Sequential(nn.Conv2d(ch, ch, 4), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(ch, 1))

    def forward(self, x, height, alpha):
        y = self.layers[height](F.leaky_relu(self.rgb[height](x), 0.2))
        if height > 0 and alpha < 1:
            y = alpha * y + (1 - alpha) * F.leaky_relu(self.rgb[height - 1](F.avg_pool2d(x, 2)), 0.2)
        for i in reversed(range(height)):
            y = self.layers[i](y)
        return self.final(y).view(-1)


class WGAN_GP:
    def __init__(self, dis, drift=0.001):
        self.dis = dis
        self.drift = drift

    def _gradient_penalty(self, real_samps, fake_samps, height, alpha, reg_lambda=10):
        epsilon = th.rand((real_samps.shape[0], 1, 1, 1)).to(fake_samps.device)
        merged = (epsilon * real_samps) + ((1 - epsilon) * fake_samps)
        merged.requires_grad = True

        op = self.dis(merged, height, alpha)
        op.backward(gradient=th.ones_like(op), create_graph=True)
        gradient = merged.grad

        gradient = gradient.view(gradient.shape[0], -1)
        return reg_lambda * ((gradient.norm(p=2, dim=1) - 1) ** 2).mean()

    def dis_loss(self, real_samps, fake_samps, height, alpha):
        fake_out = self.dis(fake_samps, height, alpha)
        real_out = self.dis(real_samps, height, alpha)
        loss = th.mean(fake_out) - th.mean(real_out) + self.drift * th.mean(real_out ** 2)
        return loss + self._gradient_penalty(real_samps, fake_samps, height, alpha)

    def gen_loss(self, fake_samps, height, alpha):
        return -th.mean(self.dis(fake_samps, height, alpha))


class ProGAN:
    def __init__(self, depth=3, latent=24, lr=2e-3):
        self.latent = latent
        self.depth = depth
        self.gen, self.dis = Generator(latent, depth=depth), Discriminator(depth=depth)
        self.gen_optim = th.optim.Adam(self.gen.parameters(), lr=lr, betas=(0.0, 0.99))
        self.dis_optim = th.optim.Adam(self.dis.parameters(), lr=lr, betas=(0.0, 0.99))
        self.loss = WGAN_GP(self.dis)

    def downsample(self, real, height, alpha):
        factor = 2 ** (self.depth - 1 - height)
        x = F.avg_pool2d(real, factor) if factor > 1 else real
        if height > 0 and alpha < 1:
            prior = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2)
            x = alpha * x + (1 - alpha) * prior
        return x

    def optimize_discriminator(self, noise, real, height, alpha):
        real = self.downsample(real, height, alpha)
        fake = self.gen(noise, height, alpha).detach()
        loss = self.loss.dis_loss(real, fake, height, alpha)
        self.dis_optim.zero_grad()
        loss.backward()
        self.dis_optim.step()
        return loss.item()

    def optimize_generator(self, noise, height, alpha):
        loss = self.loss.gen_loss(self.gen(noise, height, alpha), height, alpha)
        self.gen_optim.zero_grad()
        loss.backward()
        self.gen_optim.step()
        return loss.item()

    def distance(self, real, height):
        """Sliced Wasserstein distance of generated to real pictures."""
        with th.no_grad():
            g = th.Generator().manual_seed(5)
            fake = self.gen(th.randn(len(real), self.latent, generator=g), height, 1.0)
            real = self.downsample(real, height, 1.0).flatten(1)
            proj = F.normalize(th.randn(real.shape[1], 64, generator=g), dim=0)
            a, _ = th.sort(fake.flatten(1) @ proj, 0)
            b, _ = th.sort(real @ proj, 0)
            return (a - b).abs().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, nargs="+", default=[40, 50, 105])
    parser.add_argument("--fade_in", type=float, default=0.4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--save_dir", default="ckpt/pro_gan")
    args = parser.parse_args()
    th.set_num_threads(1)
    th.manual_seed(0)
    os.makedirs(args.save_dir, exist_ok=True)
    data = Pictures(1024, 1)
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True)
    held_out = th.from_numpy(np.stack(Pictures(256, 2).data))
    gan, start = ProGAN(), time.time()
    for height, n_steps in enumerate(args.steps):
        print(f"working on height {height} ({8 * 2 ** height}x{8 * 2 ** height}) "
              f"swd {gan.distance(held_out, height):.4f} rss {rss_mb():.0f} MB")
        ticker, it = 0, iter(loader)
        while ticker < n_steps:
            try:
                batch = next(it)
            except StopIteration:
                it = iter(loader)
                batch = next(it)
            ticker += 1
            alpha = min(1.0, ticker / (args.fade_in * n_steps))
            d_loss = gan.optimize_discriminator(th.randn(len(batch), gan.latent), batch, height, alpha)
            g_loss = gan.optimize_generator(th.randn(len(batch), gan.latent), height, alpha)
            if ticker % 30 == 0:
                print(f"  step {ticker:4d} d_loss {d_loss:8.3f} g_loss {g_loss:8.3f} rss {rss_mb():.0f} MB", flush=True)
        print(f"  swd {gan.distance(held_out, height):.4f}")
        th.save(gan.gen.state_dict(), os.path.join(args.save_dir, f"GAN_GEN_{height}.pth"))
    print(f"finished, rss {rss_mb():.0f} MB  ({time.time() - start:.1f}s)")


if __name__ == "__main__":
    main()
