"""Variational autoencoder on small binary sprites (bars, discs and boxes at random places)."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=400)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--latent", type=int, default=16)
parser.add_argument("--hidden", type=int, default=400)
parser.add_argument("--n-train", type=int, default=20000)
parser.add_argument("--n-test", type=int, default=2000)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--log-every", type=int, default=25)
parser.add_argument("--out", default="vae_out")
args = parser.parse_args()

random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)

SIDE = 28


def draw_sprite(rng):
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    kind = rng.integers(3)
    cy, cx = rng.uniform(8, 20, size=2)
    size = rng.uniform(3, 7)
    if kind == 0:
        img = (yy - cy) ** 2 + (xx - cx) ** 2 < size ** 2
    elif kind == 1:
        img = (np.abs(yy - cy) < size) & (np.abs(xx - cx) < size * 0.7)
    else:
        ang = rng.uniform(0, np.pi)
        d = np.abs((yy - cy) * np.cos(ang) - (xx - cx) * np.sin(ang))
        r = np.hypot(yy - cy, xx - cx)
        img = (d < 1.7) & (r < size * 1.6)
    return img.astype(np.float32)


def make_set(n, seed):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([draw_sprite(rng) for _ in range(n)])).view(n, -1)


class Encoder(nn.Module):
    def __init__(self, d_in, hidden, latent):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mu = nn.Linear(hidden, latent)
        self.log_sigma = nn.Linear(hidden, latent)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), self.log_sigma(h)


class Decoder(nn.Module):
    def __init__(self, latent, hidden, d_out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                 nn.Linear(hidden, d_out))

    def forward(self, z):
        return self.net(z)


# KL-divergence between approximation posterior and N(0, 1) prior.
def kl_q_p(mu, log_sigma):
    return 0.5 * torch.sum(torch.exp(2 * log_sigma) + mu ** 2 - 1 - 2 * log_sigma)


# log p(x|z) - conditional probability of data given latents.
def logp_x_z(logits, x):
    return -F.binary_cross_entropy_with_logits(logits, x, reduction="sum")


class VAE(nn.Module):
    def __init__(self, d_in, hidden, latent):
        super().__init__()
        self.encoder = Encoder(d_in, hidden, latent)
        self.decoder = Decoder(latent, hidden, d_in)

    def forward(self, x):
        mu, log_sigma = self.encoder(x)
        z = mu + torch.exp(log_sigma) * torch.randn_like(mu)
        return self.decoder(z), mu, log_sigma

    def elbo(self, x):
        logits, mu, log_sigma = self(x)
        rec = logp_x_z(logits, x) / x.size(0)
        kl = kl_q_p(mu, log_sigma) / x.size(0)
        return rec - kl, rec, kl


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    tot, n = 0.0, 0
    for (x,) in loader:
        bound, _, _ = model.elbo(x)
        tot += bound.item() * x.size(0)
        n += x.size(0)
    return tot / n


def main():
    os.makedirs(args.out, exist_ok=True)
    train = make_set(args.n_train, args.seed)
    test = make_set(args.n_test, args.seed + 1)
    train_loader = DataLoader(TensorDataset(train), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(test), batch_size=500)

    model = VAE(SIDE * SIDE, args.hidden, args.latent)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    best = -float("inf")
    for epoch in range(1, args.epochs + 1):
        model.train()
        t0 = time.time()
        for i, (x,) in enumerate(train_loader):
            bound, rec, kl = model.elbo(x)
            loss = -bound
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % args.log_every == 0:
                print(f"epoch {epoch} it {i:4d} loss {loss.item():9.3f} rec {-rec.item():9.3f} kl {kl.item():8.3f}",
                      flush=True)
        elbo = evaluate(model, test_loader)
        print(f"== epoch {epoch} test elbo {elbo:.3f} ({time.time() - t0:.1f}s)", flush=True)
        if elbo > best:
            best = elbo
            torch.save(model.state_dict(), os.path.join(args.out, "vae_best.pt"))


if __name__ == "__main__":
    main()
