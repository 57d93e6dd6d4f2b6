"""Density estimation on tabular detector data with a RealNVP flow and batch norm between the layers."""
import argparse
import math
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_events(n, rng, dim=12):
    """Reconstructed events: correlated kinematics with two populations and curved dependencies."""
    kind = rng.random(n) < 0.35
    base = rng.normal(size=(n, dim // 2))
    base[kind] = base[kind] * 0.6 + 1.5
    mix = np.linspace(-1, 1, (dim // 2) ** 2).reshape(dim // 2, dim // 2)
    first = base + 0.4 * np.tanh(base @ mix)
    second = np.sin(1.5 * first) + 0.3 * first[:, ::-1] ** 2 + rng.normal(0, 0.25, first.shape)
    data = np.concatenate([first, second], 1)
    return data.astype(np.float32)


class BatchNorm(nn.Module):
    """Invertible batch norm. Training uses the statistics of the batch, evaluation the running ones."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.unconstrained_weight = nn.Parameter(torch.full((features,), math.log(math.e - 1)))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    @property
    def weight(self):
        return F.softplus(self.unconstrained_weight) + self.eps

    def forward(self, inputs):
        if self.training:
            mean, var = inputs.mean(0), inputs.var(0)
            self.running_mean.mul_(1 - self.momentum).add_(mean.detach() * self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var.detach() * self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        outputs = self.weight * (inputs - mean) / torch.sqrt(var + self.eps) + self.bias
        logabsdet = (torch.log(self.weight) - 0.5 * torch.log(var + self.eps)).sum()
        return outputs, logabsdet.expand(len(inputs))


class Coupling(nn.Module):
    def __init__(self, mask, hidden):
        super().__init__()
        self.register_buffer("mask", mask)
        dim = len(mask)
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 2 * dim))
        nn.init.normal_(self.net[-1].weight, std=0.01)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        shift, scale = self.net(x * self.mask).chunk(2, dim=1)
        scale = 2 * torch.tanh(scale / 2) * (1 - self.mask)
        shift = shift * (1 - self.mask)
        return x * torch.exp(scale) + shift, scale.sum(1)


class RealNVP(nn.Module):
    def __init__(self, dim, hidden, n_layers):
        super().__init__()
        mask = (torch.arange(dim) % 2).float()
        layers = []
        for i in range(n_layers):
            layers += [Coupling(mask if i % 2 == 0 else 1 - mask, hidden), BatchNorm(dim)]
        self.layers = nn.ModuleList(layers)

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, logabsdet = layer(x)
            total = total + logabsdet
        return total - 0.5 * (x ** 2).sum(1) - 0.5 * x.shape[1] * math.log(2 * math.pi)


@torch.no_grad()
def validate(flow, data):
    flow.eval()
    nll = -torch.cat([flow.log_prob(chunk) for chunk in data.split(2000)]).mean().item()
    flow.train()
    return nll


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=200000)
    ap.add_argument("--batch_size", type=int, default=512)
    ap.add_argument("--hidden", type=int, default=128)
    ap.add_argument("--n_layers", type=int, default=8)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--report_every", type=int, default=50)
    ap.add_argument("--validate_every", type=int, default=500)
    ap.add_argument("--seed", type=int, default=17)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    data = make_events(110000, np.random.default_rng(args.seed))
    mean, std = data[:100000].mean(0), data[:100000].std(0)
    data = torch.from_numpy((data - mean) / std)
    train, held_out = data[:100000], data[100000:]

    flow = RealNVP(data.shape[1], args.hidden, args.n_layers)
    optimizer = torch.optim.Adam(flow.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.iterations, eta_min=1e-6)
    best, t0, running = float("inf"), time.time(), 0.0
    flow.train()
    for i in range(1, args.iterations + 1):
        x = train[torch.randint(len(train), (args.batch_size,))]
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        running += loss.item()
        if i % args.report_every == 0:
            print(f"iteration {i} nll {running / args.report_every:.4f} {1000 * (time.time() - t0) / i:.1f} ms", flush=True)
            running = 0.0
        if i % args.validate_every == 0:
            nll = validate(flow, held_out)
            print(f"iteration {i} held-out nll {nll:.4f}", flush=True)
            if nll < best:
                best = nll
                torch.save(flow.state_dict(), "realnvp.pt")


if __name__ == "__main__":
    main()
