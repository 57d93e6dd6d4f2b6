"""Pixel diffusion with Min-SNR loss weighting and a noise schedule that ends in pure noise."""
import argparse

import numpy as np
import torch as th
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def linear_betas(num_timesteps):
    scale = 1000 / num_timesteps
    return np.linspace(scale * 0.0001, scale * 0.02, num_timesteps, dtype=np.float64)


def rescale_zero_terminal_snr(betas):
    """Common Diffusion Noise Schedules and Sample Steps are Flawed, algorithm 1."""
    alphas_bar_sqrt = np.sqrt(np.cumprod(1.0 - betas))
    first, last = alphas_bar_sqrt[0], alphas_bar_sqrt[-1]
    alphas_bar_sqrt = (alphas_bar_sqrt - last) * first / (first - last)
    alphas_bar = alphas_bar_sqrt ** 2
    alphas = np.concatenate([alphas_bar[:1], alphas_bar[1:] / alphas_bar[:-1]])
    return 1 - alphas


def mean_flat(x):
    return x.mean(dim=list(range(1, x.dim())))


class GaussianDiffusion:
    def __init__(self, betas, mse_loss_weight_type):
        alphas_cumprod = np.cumprod(1.0 - betas)
        self.num_timesteps = len(betas)
        self.mse_loss_weight_type = mse_loss_weight_type
        self.sqrt_alphas_cumprod = th.from_numpy(np.sqrt(alphas_cumprod)).float()
        self.sqrt_one_minus_alphas_cumprod = th.from_numpy(np.sqrt(1.0 - alphas_cumprod)).float()

    def q_sample(self, x_start, t, noise):
        a = self.sqrt_alphas_cumprod[t].view(-1, 1, 1, 1)
        s = self.sqrt_one_minus_alphas_cumprod[t].view(-1, 1, 1, 1)
        return a * x_start + s * noise

    def loss_weight(self, t):
        alpha, sigma = self.sqrt_alphas_cumprod[t], self.sqrt_one_minus_alphas_cumprod[t]
        snr = (alpha / sigma) ** 2
        mse_loss_weight = th.ones_like(snr)
        if self.mse_loss_weight_type.startswith("min_snr_"):
            k = float(self.mse_loss_weight_type.split("min_snr_")[-1])
            mse_loss_weight = th.stack([snr, k * th.ones_like(snr)], dim=1).min(dim=1)[0] / snr
        return mse_loss_weight

    def training_losses(self, model, x_start, t):
        noise = th.randn_like(x_start)
        x_t = self.q_sample(x_start, t, noise)
        model_output = model(x_t, t)
        mse_raw = mean_flat((noise - model_output) ** 2)
        return {"loss": self.loss_weight(t) * mse_raw, "mse_raw": mse_raw}


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = th.exp(-np.log(10000) * th.arange(half).float() / half)
    args = t[:, None].float() * freqs[None]
    return th.cat([th.cos(args), th.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(8, ch), nn.GroupNorm(8, ch)
        self.c1, self.c2 = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class SmallUNet(nn.Module):
    def __init__(self, ch=32, emb=64):
        super().__init__()
        self.emb_dim = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.down1 = ResBlock(ch, emb)
        self.pool = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.mid = nn.ModuleList([ResBlock(ch, emb), ResBlock(ch, emb)])
        self.up = nn.Conv2d(ch, ch, 3, padding=1)
        self.merge = nn.Conv2d(2 * ch, ch, 1)
        self.up1 = ResBlock(ch, emb)
        self.out = nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, x, t):
        e = F.silu(self.time(timestep_embedding(t, self.emb_dim)))
        h1 = self.down1(self.inp(x), e)
        h = self.pool(h1)
        for block in self.mid:
            h = block(h, e)
        h = self.up(F.interpolate(h, scale_factor=2))
        h = self.up1(self.merge(th.cat([h, h1], dim=1)), e)
        return self.out(h)


def make_images(n, size, rng):
    yy, xx = np.mgrid[:size, :size]
    images = -np.ones((n, 1, size, size), np.float32)
    for i in range(n):
        cy, cx, r = rng.uniform(4, size - 4), rng.uniform(4, size - 4), rng.uniform(2.5, 5)
        if rng.random() < 0.5:
            shape = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        else:
            shape = (np.abs(yy - cy) < r) & (np.abs(xx - cx) < r)
        images[i, 0][shape] = rng.uniform(0.4, 1.0)
    return th.from_numpy(images)


@th.no_grad()
def evaluate(diffusion, model, images, generator):
    model.eval()
    t = th.randint(0, diffusion.num_timesteps, (len(images),), generator=generator)
    noise = th.randn(images.shape, generator=generator)
    pred = th.cat([model(diffusion.q_sample(x, k, e), k)
                   for x, k, e in zip(images.split(64), t.split(64), noise.split(64))])
    model.train()
    return ((pred - noise) ** 2).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--diffusion_steps", type=int, default=1000)
    parser.add_argument("--mse_loss_weight_type", default="min_snr_5")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    th.set_num_threads(1)
    th.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    train = make_images(2560, 16, rng)
    val = make_images(256, 16, rng)
    loader = DataLoader(TensorDataset(train), args.batch_size, shuffle=True, drop_last=True)
    diffusion = GaussianDiffusion(rescale_zero_terminal_snr(linear_betas(args.diffusion_steps)),
                                  args.mse_loss_weight_type)
    model = SmallUNet()
    opt = th.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    step = 0
    for epoch in range(args.epochs):
        sums, raws = 0.0, 0.0
        for (x,) in loader:
            t = th.randint(0, diffusion.num_timesteps, (len(x),))
            terms = diffusion.training_losses(model, x, t)
            loss = terms["loss"].mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
            sums += loss.item()
            raws += terms["mse_raw"].mean().item()
            if step % 20 == 0:
                print(f"step {step} loss {sums / 20:.4f} mse_raw {raws / 20:.4f}", flush=True)
                sums, raws = 0.0, 0.0
        score = evaluate(diffusion, model, val, th.Generator().manual_seed(0))
        print(f"epoch {epoch} val eps mse {score:.4f}", flush=True)


if __name__ == "__main__":
    main()
