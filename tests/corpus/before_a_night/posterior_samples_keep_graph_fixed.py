"""Neural posterior estimation for a simulator of damped oscillations, with a running leakage check."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

LOW = torch.tensor([0.5, 0.1, 0.2])
HIGH = torch.tensor([2.0, 1.0, 1.5])
TIMES = 30


def simulate(theta, rng):
    """Noisy traces of amplitude * exp(-decay t) * cos(2 freq t)."""
    t = np.linspace(0, 4, TIMES)
    amp, decay, freq = theta[:, :1], theta[:, 1:2], theta[:, 2:3]
    clean = amp * np.exp(-decay * t) * np.cos(2 * freq * t)
    return clean + rng.normal(0, 0.05, clean.shape)


def draw_simulations(n, seed):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(LOW.numpy(), HIGH.numpy(), (n, 3))
    return torch.tensor(theta, dtype=torch.float32), torch.tensor(simulate(theta, rng), dtype=torch.float32)


class MixtureDensityNet(nn.Module):
    def __init__(self, x_mean, x_std, components=5, hidden=128):
        super().__init__()
        self.k = components
        self.register_buffer("x_mean", x_mean)
        self.register_buffer("x_std", x_std)
        self.body = nn.Sequential(nn.Linear(TIMES, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, components * 7)

    def params(self, x):
        h = self.out(self.body((x - self.x_mean) / self.x_std)).view(-1, self.k, 7)
        return h[..., 0].log_softmax(-1), h[..., 1:4], h[..., 4:].clamp(-5, 2)

    def log_prob(self, theta, x):
        logw, mu, log_std = self.params(x)
        z = (self.unit(theta).unsqueeze(1) - mu) / log_std.exp()
        comp = -0.5 * z.pow(2).sum(-1) - log_std.sum(-1) - 1.5 * math.log(2 * math.pi)
        return torch.logsumexp(logw + comp, dim=-1)

    def sample(self, x, n):
        """n draws for one observation; the network is evaluated with measurement jitter per draw."""
        noisy = x.expand(n, -1) + 0.02 * torch.randn(n, TIMES)
        logw, mu, log_std = self.params(noisy)
        pick = torch.multinomial(logw.exp(), 1).unsqueeze(-1).expand(-1, 1, 3)
        mu, std = mu.gather(1, pick).squeeze(1), log_std.gather(1, pick).squeeze(1).exp()
        return self.original(mu + std * torch.randn_like(mu))

    @staticmethod
    def unit(theta):
        return 4 * (theta - LOW) / (HIGH - LOW) - 2

    @staticmethod
    def original(z):
        return (z + 2) / 4 * (HIGH - LOW) + LOW


def rejection_sample(net, x, keep, batch=512):
    """Draw from the density net, keep what lies inside the prior box."""
    candidates = net.sample(x, batch).detach()
    inside = ((candidates > LOW) & (candidates < HIGH)).all(dim=1)
    return candidates[inside][:keep], inside.float().mean().item()


@torch.no_grad()
def validate(net, loader):
    net.eval()
    total, n = 0.0, 0
    for theta, x in loader:
        total -= net.log_prob(theta, x).sum().item()
        n += len(theta)
    return total / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--simulations", type=int, default=7680)
    p.add_argument("--seed", type=int, default=6)
    p.add_argument("--checkpoint", default="posterior.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    theta, x = draw_simulations(args.simulations, 1)
    generator = torch.Generator().manual_seed(args.seed)
    loader = DataLoader(TensorDataset(theta, x), args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(TensorDataset(*draw_simulations(768, 2)), args.batch_size)
    theta_obs, x_obs = draw_simulations(1, 3)
    net = MixtureDensityNet(x.mean(0), x.std(0))
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    start = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1

    posterior_trace = []
    for epoch in range(start, args.epochs):
        net.train()
        total, accepted = 0.0, 0.0
        for theta_b, x_b in loader:
            loss = -net.log_prob(theta_b, x_b).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
            samples, rate = rejection_sample(net, x_obs, keep=16)
            posterior_trace.append(samples)
            accepted += rate
        recent = torch.cat(posterior_trace[-len(loader):])
        error = (recent.mean(0) - theta_obs[0]).abs().mean().item()
        print(f"epoch {epoch} nll {total / len(loader):.4f} val {validate(net, val_loader):.4f} "
              f"acceptance {accepted / len(loader):.3f} error {error:.3f}", flush=True)
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "generator": generator.get_state(), "rng": torch.get_rng_state()}, args.checkpoint)


if __name__ == "__main__":
    main()
