"""Small learned image codec with a hyper-prior: distortion + rate of the quantised latents."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    """Smooth gradients, edges and stripes."""

    def __init__(self, n, size=32, seed=0):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:size, :size] / size
        self.x = np.zeros((n, 1, size, size), np.float32)
        for i in range(n):
            a = rng.uniform(0, 2 * np.pi)
            u = xx * np.cos(a) + yy * np.sin(a)
            img = rng.uniform(0.2, 0.8) + rng.uniform(-0.4, 0.4) * u
            kind = rng.integers(3)
            if kind == 1:
                img = img + 0.4 * (u > rng.uniform(0, 0.7))
            elif kind == 2:
                img = img + 0.2 * np.sin(2 * np.pi * rng.uniform(1, 4) * u)
            self.x[i, 0] = np.clip(img + rng.normal(0, 0.01, img.shape), 0, 1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i])


class GaussianModel(nn.Module):
    """Probability of an integer bin under a normal distribution."""

    def __init__(self):
        super().__init__()
        self.m_normal_dist = torch.distributions.normal.Normal(0., 1., validate_args=False)

    def _cumulative(self, inputs, stds, mu):
        half = 0.5
        eps = 1e-6
        upper = (inputs - mu + half) / (stds + eps)
        lower = (inputs - mu - half) / (stds + eps)
        cdf_upper = self.m_normal_dist.cdf(upper)
        cdf_lower = self.m_normal_dist.cdf(lower)
        return cdf_upper - cdf_lower

    def forward(self, inputs, hyper_sigma, hyper_mu):
        likelihood = self._cumulative(inputs, hyper_sigma, hyper_mu)
        likelihood_bound = 1e-8
        return torch.clamp(likelihood, min=likelihood_bound)


class Codec(nn.Module):
    def __init__(self, dim=32, latent=12, hyper=8):
        super().__init__()
        self.analysis = nn.Sequential(
            nn.Conv2d(1, dim, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv2d(dim, dim, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv2d(dim, latent, 3, stride=2, padding=1))
        self.synthesis = nn.Sequential(
            nn.ConvTranspose2d(latent, dim, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(dim, dim, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(dim, 1, 4, stride=2, padding=1))
        self.hyper_analysis = nn.Sequential(nn.Conv2d(latent, dim, 3, padding=1), nn.LeakyReLU(0.2),
                                            nn.Conv2d(dim, hyper, 3, stride=2, padding=1))
        self.prediction = nn.Sequential(nn.ConvTranspose2d(hyper, dim, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
                                        nn.Conv2d(dim, 2 * latent, 3, padding=1))
        with torch.no_grad():
            self.prediction[-1].bias[latent:] = 1.0
        self.h_log_sigma = nn.Parameter(torch.zeros(1, hyper, 1, 1))
        self.entropy_z1 = GaussianModel()
        self.entropy_z2 = GaussianModel()

    def quantise(self, x):
        if self.training:
            return x + torch.rand_like(x) - 0.5
        return torch.round(x)

    def forward(self, x):
        y = self.analysis(x)
        h = self.quantise(self.hyper_analysis(y))
        h_sigma = torch.exp(self.h_log_sigma)
        z1 = self.entropy_z1(h, h_sigma, torch.zeros_like(h_sigma))
        mu, sigma = self.prediction(h).chunk(2, 1)
        sigma = F.relu(sigma)
        z2_in = self.quantise(y)
        z2 = self.entropy_z2(z2_in, sigma, mu)
        bits = (-torch.log2(z1).sum() - torch.log2(z2).sum()) / x.numel()
        return self.synthesis(z2_in), bits


def train(model, loader, optimizer, lmbda, epoch):
    model.train()
    for i, x in enumerate(loader):
        recon, bpp = model(x)
        mse = F.mse_loss(recon, x)
        loss = lmbda * mse + bpp
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if i % 40 == 0:
            print(f"epoch {epoch} batch {i} loss {loss.item():.4f} mse {mse.item():.5f} bpp {bpp.item():.4f}",
                  flush=True)


@torch.no_grad()
def test(model, loader):
    model.eval()
    mse, bpp = 0.0, 0.0
    for x in loader:
        recon, b = model(x)
        mse += F.mse_loss(recon, x).item() / len(loader)
        bpp += b.item() / len(loader)
    psnr = -10 * math.log10(mse) if mse > 0 else float("nan")
    print(f"  test psnr {psnr:.2f} bpp {bpp:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--lmbda", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    loader = DataLoader(Patches(2400, seed=1), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(Patches(200, seed=2), batch_size=50)
    model = Codec()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        train(model, loader, optimizer, args.lmbda, epoch)
        test(model, test_loader)


if __name__ == "__main__":
    main()
