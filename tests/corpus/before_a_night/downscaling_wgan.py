"""Statistical downscaling of 2 m temperature with a Wasserstein GAN (generator: U-shaped, critic: CNN)."""
import argparse
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FACTOR = 4


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save_dir", type=Path, default=Path("trained_models/wgan_t2m"))
    parser.add_argument("--nepochs", type=int, default=120)
    parser.add_argument("--d_steps", type=int, default=3, help="critic updates per generator update")
    parser.add_argument("--batch_size", type=int, default=24)
    parser.add_argument("--n_days", type=int, default=2400)
    parser.add_argument("--lr_gen", type=float, default=3e-4)
    parser.add_argument("--lr_critic", type=float, default=2e-4)
    parser.add_argument("--recon_weight", type=float, default=20.0)
    parser.add_argument("--gp_weight", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=17)
    return parser.parse_args()


class DownscalingData:
    """Coarse temperature and fine topography -> fine temperature."""

    def __init__(self, n, size, seed, topo=None, stats=None):
        rng = np.random.default_rng(seed)
        if topo is None:
            field = sum(self.noise(np.random.default_rng(99), 1, k, size)[0] * a for k, a in ((4, 1.0), (8, 0.7), (16, 0.4)))
            topo = np.exp(0.8 * field)
        self.topo = topo
        large = self.noise(rng, n, 4, size) * 6 + rng.normal(0, 5, (n, 1, 1))
        inversion = rng.random((n, 1, 1)) < 0.25
        lapse = np.where(inversion, 1.5, -4.0) * topo[None]
        meso = self.noise(rng, n, 12, size) * 0.8
        fine = large + lapse + meso
        coarse = fine.reshape(n, size // FACTOR, FACTOR, size // FACTOR, FACTOR).mean((2, 4))
        self.stats = stats or (float(fine.mean()), float(fine.std()))
        self.fine = torch.tensor((fine - self.stats[0]) / self.stats[1], dtype=torch.float32)[:, None]
        up = torch.tensor((coarse - self.stats[0]) / self.stats[1], dtype=torch.float32)[:, None]
        up = F.interpolate(up, scale_factor=FACTOR, mode="bilinear", align_corners=False)
        z = torch.tensor((topo - topo.mean()) / topo.std(), dtype=torch.float32)[None, None].expand(n, 1, size, size)
        self.inputs = torch.cat([up, z], dim=1)

    @staticmethod
    def noise(rng, n, k, size):
        raw = torch.tensor(rng.standard_normal((n, 1, k, k)), dtype=torch.float32)
        return F.interpolate(raw, size=(size, size), mode="bicubic", align_corners=True)[:, 0].numpy()

    def __len__(self):
        return len(self.fine)


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(cout, cout, 3, padding=1), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, nf=24):
        super().__init__()
        self.enc1, self.enc2, self.enc3 = conv_block(3, nf), conv_block(nf, 2 * nf), conv_block(2 * nf, 2 * nf)
        self.dec2, self.dec1 = conv_block(4 * nf, nf), conv_block(2 * nf, nf)
        self.out = nn.Conv2d(nf, 1, 1)

    def forward(self, x):
        z = torch.randn(x.size(0), 1, *x.shape[2:])
        e1 = self.enc1(torch.cat([x, z], 1))
        e2 = self.enc2(F.avg_pool2d(e1, 2))
        e3 = self.enc3(F.avg_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([F.interpolate(e3, scale_factor=2), e2], 1))
        d1 = self.dec1(torch.cat([F.interpolate(d2, scale_factor=2), e1], 1))
        return x[:, :1] + self.out(d1)


class Critic(nn.Module):
    def __init__(self, nf=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, nf, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(nf, 2 * nf, 3, 2, 1), nn.LeakyReLU(0.2),
                                 nn.Conv2d(2 * nf, 4 * nf, 3, 2, 1), nn.LeakyReLU(0.2), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                                 nn.Linear(16 * nf, 1))

    def forward(self, x, y):
        return self.net(torch.cat([x, y], 1)).squeeze(1)


class HarrisWGAN:
    def __init__(self, args):
        self.args = args
        self.generator, self.critic = Generator(), Critic()
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), lr=args.lr_gen, betas=(0.5, 0.9))
        self.c_optimizer = torch.optim.Adam(self.critic.parameters(), lr=args.lr_critic, betas=(0.5, 0.9))

    def gradient_penalty(self, x, real, fake):
        mix = torch.rand(real.size(0), 1, 1, 1)
        inter = (mix * real + (1 - mix) * fake).requires_grad_(True)
        grad, = torch.autograd.grad(self.critic(x, inter).sum(), inter, create_graph=True)
        return (grad.flatten(1).norm(dim=1) - 1).pow(2).mean()

    def critic_step(self, x, real):
        with torch.no_grad():
            fake = self.generator(x)
        c_loss = self.critic(x, fake).mean() - self.critic(x, real).mean()
        loss = c_loss + self.args.gp_weight * self.gradient_penalty(x, real, fake)
        self.c_optimizer.zero_grad()
        loss.backward()
        self.c_optimizer.step()
        return c_loss.item()

    def generator_step(self, x, real):
        fake = self.generator(x)
        recon = F.l1_loss(fake, real)
        loss = self.args.recon_weight * recon - self.critic(x, fake).mean()
        self.g_optimizer.zero_grad()
        loss.backward()
        self.g_optimizer.step()
        return recon.item()

    @torch.no_grad()
    def validate(self, data):
        self.generator.eval()
        pred = torch.cat([self.generator(x) for x in data.inputs.split(64)])
        self.generator.train()
        rmse = F.mse_loss(pred, data.fine).sqrt().item() * data.stats[1]
        def grad_amplitude(f):
            return f.diff(dim=2).abs().mean() + f.diff(dim=3).abs().mean()
        return rmse, (grad_amplitude(pred) / grad_amplitude(data.fine)).item()

    def save_checkpoint(self, path, epoch, best):
        state = {
            "generator": self.generator.state_dict(),
            "critic": self.critic.state_dict(),
            "epoch": epoch,
            "best": best,
            "rng": torch.get_rng_state(),
        }
        tmp = path.with_suffix(".tmp")
        torch.save(state, tmp)
        os.replace(tmp, path)

    def load_checkpoint(self, path):
        state = torch.load(path, weights_only=False)
        self.generator.load_state_dict(state["generator"])
        self.critic.load_state_dict(state["critic"])
        torch.set_rng_state(state["rng"])
        return state["epoch"] + 1, state["best"]


def main():
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    args.save_dir.mkdir(parents=True, exist_ok=True)

    train = DownscalingData(args.n_days, 48, args.seed)
    val = DownscalingData(200, 48, args.seed + 1, train.topo, train.stats)
    model = HarrisWGAN(args)
    ckpt = args.save_dir / "checkpoint.pt"
    start_epoch, best = 0, float("inf")
    if ckpt.is_file():
        start_epoch, best = model.load_checkpoint(ckpt)
        print(f"Resume training from epoch {start_epoch}")

    per_update = args.batch_size * (args.d_steps + 1)
    for epoch in range(start_epoch, args.nepochs):
        t0, c_losses, recons = time.time(), [], []
        for chunk in torch.randperm(len(train)).split(per_update):
            if len(chunk) < per_update:
                break
            *critic_parts, gen_part = chunk.split(args.batch_size)
            for part in critic_parts:
                c_losses.append(model.critic_step(train.inputs[part], train.fine[part]))
            recons.append(model.generator_step(train.inputs[gen_part], train.fine[gen_part]))
            if len(recons) % 5 == 0:
                print(f"epoch {epoch} update {len(recons)} c_loss {np.mean(c_losses[-15:]):.4f} recon {np.mean(recons[-5:]):.4f}", flush=True)
        rmse, sharp = model.validate(val)
        print(f"epoch {epoch}: recon {np.mean(recons):.4f} val rmse {rmse:.3f} K, gradient ratio {sharp:.3f} ({time.time() - t0:.0f}s)", flush=True)
        if rmse < best:
            best = rmse
            torch.save(model.generator.state_dict(), args.save_dir / "best_generator.pt")
        model.save_checkpoint(ckpt, epoch, best)


if __name__ == "__main__":
    main()
