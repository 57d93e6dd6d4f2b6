"""Variational inference with a coupling flow.

The flow is fitted to an unnormalised density by the reverse KL divergence; the
density here is a bent Gaussian in four dimensions that can also be sampled, so
that the fit can be judged by the likelihood of true samples.
"""
import argparse
import math
import time

import torch
import torch.nn as nn


class DiagGaussian(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, n):
        z = torch.randn(n, self.dim)
        return z, self.log_prob(z)

    def log_prob(self, z):
        return -0.5 * (z ** 2).sum(1) - 0.5 * self.dim * math.log(2 * math.pi)


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for a, b in zip(sizes[:-2], sizes[1:-1]):
            layers += [nn.Linear(a, b), nn.LeakyReLU(0.01)]
        last = nn.Linear(sizes[-2], sizes[-1])
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(*layers, last)

    def forward(self, x):
        return self.net(x)


class AffineCoupling(nn.Module):
    """x1 = z1, x2 = z2 * exp(s(z1)) + t(z1)"""

    def __init__(self, dim, hidden, s_max=1.5):
        super().__init__()
        self.half = dim // 2
        self.s_max = s_max
        self.net = MLP([self.half, hidden, hidden, 2 * (dim - self.half)])

    def scale_shift(self, h):
        s, t = self.net(h).chunk(2, dim=1)
        return self.s_max * torch.tanh(s / self.s_max), t

    def forward(self, z):
        z1, z2 = z[:, :self.half], z[:, self.half:]
        s, t = self.scale_shift(z1)
        return torch.cat([z1, z2 * torch.exp(s) + t], dim=1), s.sum(1)

    def inverse(self, x):
        x1, x2 = x[:, :self.half], x[:, self.half:]
        s, t = self.scale_shift(x1)
        return torch.cat([x1, (x2 - t) * torch.exp(-s)], dim=1), -s.sum(1)


class Swap(nn.Module):
    def forward(self, z):
        return z.flip(1), torch.zeros(len(z))

    def inverse(self, x):
        return x.flip(1), torch.zeros(len(x))


class NormalizingFlow(nn.Module):
    def __init__(self, q0, flows):
        super().__init__()
        self.q0 = q0
        self.flows = nn.ModuleList(flows)

    def forward_and_log_det(self, z):
        """Latent variable -> sample, with the log determinant of the Jacobian."""
        log_det = torch.zeros(len(z))
        for flow in self.flows:
            z, log_d = flow(z)
            log_det = log_det + log_d
        return z, log_det

    def inverse_and_log_det(self, x):
        """Sample -> latent variable, with the log determinant of the Jacobian."""
        log_det = torch.zeros(len(x))
        for flow in reversed(self.flows):
            x, log_d = flow.inverse(x)
            log_det = log_det + log_d
        return x, log_det

    def log_prob(self, x):
        z, log_det = self.inverse_and_log_det(x)
        return self.q0.log_prob(z) + log_det

    def sample(self, n):
        z, log_q = self.q0(n)
        x, log_det = self.forward_and_log_det(z)
        return x, log_q - log_det


class BentGaussian:
    """x0 ~ N(0,1), x1 ~ N(0.6 x0^2 - 0.6, 0.4), x2 ~ N(0.8 x0, 0.5), x3 ~ N(sin(2 x2), 0.3)"""

    std = (1.0, 0.4, 0.5, 0.3)

    def means(self, x):
        zero = torch.zeros_like(x[:, 0])
        return zero, 0.6 * x[:, 0] ** 2 - 0.6, 0.8 * x[:, 0], torch.sin(2.0 * x[:, 2])

    def log_prob(self, x):
        lp = 0.0
        for i, m in enumerate(self.means(x)):
            lp = lp - 0.5 * ((x[:, i] - m) / self.std[i]) ** 2 - math.log(self.std[i]) - 0.5 * math.log(2 * math.pi)
        return lp

    def sample(self, n, generator):
        e = torch.randn(n, 4, generator=generator)
        x = torch.zeros(n, 4)
        x[:, 0] = e[:, 0]
        x[:, 1] = 0.6 * x[:, 0] ** 2 - 0.6 + 0.4 * e[:, 1]
        x[:, 2] = 0.8 * x[:, 0] + 0.5 * e[:, 2]
        x[:, 3] = torch.sin(2.0 * x[:, 2]) + 0.3 * e[:, 3]
        return x


@torch.no_grad()
def validate(model, target, x_true):
    model.eval()
    forward_kl = (target.log_prob(x_true) - model.log_prob(x_true)).mean().item()
    z, _ = model.q0(2000)
    x, _ = model.forward_and_log_det(z)
    model.train()
    return forward_kl, x.std(0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=1200)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    target = BentGaussian()
    x_true = target.sample(2000, torch.Generator().manual_seed(77))
    flows = []
    for _ in range(args.layers):
        flows += [AffineCoupling(4, args.hidden), Swap()]
    model = NormalizingFlow(DiagGaussian(4), flows)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.iters)

    t0, running = time.time(), 0.0
    for it in range(1, args.iters + 1):
        x, log_q = model.sample(args.batch)
        loss = (log_q - target.log_prob(x)).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        scheduler.step()
        running += loss.item()
        if it % 100 == 0:
            kl, std = validate(model, target, x_true)
            print("iter %5d | reverse KL %9.4f | KL on true samples %10.4f | sample std %s | %.1fs"
                  % (it, running / 100, kl, " ".join("%.3f" % v for v in std.tolist()), time.time() - t0), flush=True)
            running = 0.0


if __name__ == "__main__":
    main()
