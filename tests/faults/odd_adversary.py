"""Healthy runs in odd styles, by an opponent: `python odd_adversary.py NAME [SEED]`."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def log_softmax_into_cross_entropy():
    """Needless, but log_softmax of log_softmax is the same."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4), nn.LogSoftmax(dim=1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    centres = torch.randn(4, 10) * 2
    for _ in range(60):
        y = torch.randint(4, (32,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + torch.randn(32, 10)), y).backward()
        opt.step()


class LowRank(nn.Module):
    """A frozen layer and a correction of low rank that begins at zero."""

    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / math.sqrt(layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.down.T @ self.up.T


def adapters_beside_frozen_layers():
    net = nn.Sequential(LowRank(nn.Linear(12, 48)), nn.GELU(), LowRank(nn.Linear(48, 48)), nn.GELU(), nn.Linear(48, 3))
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=2e-3)
    centres = torch.randn(3, 12)
    for _ in range(80):
        y = torch.randint(3, (24,))
        loss = F.cross_entropy(net(centres[y] + 0.7 * torch.randn(24, 12)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class SignMomentum(torch.optim.Optimizer):
    """Steps of equal size along the sign of a mixed momentum."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    p.add_((0.9 * m + 0.1 * p.grad).sign(), alpha=-group["lr"])
                    m.lerp_(p.grad, 0.01)


def optimizer_of_ones_own():
    net = nn.Sequential(nn.Linear(6, 40), nn.SiLU(), nn.Linear(40, 1))
    opt = SignMomentum(net.parameters(), lr=1e-3)
    for _ in range(80):
        x = torch.randn(32, 6)
        opt.zero_grad()
        F.smooth_l1_loss(net(x)[:, 0], x[:, 0].sin() + x[:, 1]).backward()
        opt.step()


class Copier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 24)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.out = nn.Linear(32, 20)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


def curriculum():
    """The task becomes harder in steps, and the loss jumps each time."""
    net = Copier()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    for step in range(90):
        symbols, length = [(3, 6), (8, 12), (20, 24)][step // 30]
        x = torch.randint(symbols, (16, length))
        loss = F.cross_entropy(net(x)[:, 1:].flatten(0, 1), x[:, :-1].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def rate_that_restarts():
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 15, 2, eta_min=1e-4)
    centres = torch.randn(3, 8)
    for _ in range(105):
        y = torch.randint(3, (24,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + torch.randn(24, 8)), y).backward()
        opt.step()
        sched.step()


class ReZero(nn.Module):
    """A residual block that begins as the identity."""

    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.alpha * self.f(x)


def blocks_that_begin_as_identity():
    net = nn.Sequential(nn.Linear(6, 24), *[ReZero(24) for _ in range(4)], nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(70):
        x = torch.randn(32, 6)
        loss = F.mse_loss(net(x), (x[:, :1] * x[:, 1:2]).tanh())
        opt.zero_grad()
        loss.backward()
        opt.step()


def learns_from_its_own_average():
    """Two views, a predictor, and a target network that follows the first and gets no gradient."""
    online = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 16))
    predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
    centres = torch.randn(10, 16)
    for _ in range(80):
        x = centres[torch.randint(10, (40,))]
        a, b = x + 0.3 * torch.randn(40, 16), x + 0.3 * torch.randn(40, 16)
        with torch.no_grad():
            goal = target(b)
        loss = 2 - 2 * F.cosine_similarity(predictor(online(a)), goal).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for t, p in zip(target.parameters(), online.parameters(), strict=True):
                t.lerp_(p, 0.05)


def house_prices_in_dollars():
    """Targets of some hundred thousand; the squared error is beyond 1e10 and falls slowly."""
    w = torch.rand(8)
    net = nn.Linear(8, 1)
    opt = torch.optim.Adam(net.parameters(), lr=500.0)
    for _ in range(100):
        x = torch.randn(64, 8)
        y = 2e5 + 5e4 * (x @ w)
        opt.zero_grad()
        F.mse_loss(net(x)[:, 0], y).backward()
        opt.step()


def heavy_tailed_features():
    """Log-normal features as counts and amounts are: now and then one is a hundred times the usual."""
    net = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for _ in range(100):
        x = torch.exp(1.5 * torch.randn(32, 6))
        y = (x[:, 0] > x[:, 1]).long()
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def learns_by_heart():
    """Forty samples, full batches: the loss goes to zero and so do gradients and updates."""
    x, y = torch.randn(40, 20), torch.randint(2, (40,))
    net = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 2))
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(150):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def large_margin():
    """A linear machine with a hinge loss; once all is separated the gradient is exactly zero."""
    net = nn.Linear(5, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    w = torch.randn(5)
    for _ in range(90):
        x = torch.randn(16, 5)
        score = x @ w
        x, y = x[score.abs() > 1], score[score.abs() > 1].sign()
        loss = F.relu(1 - y * net(x)[:, 0] * 3).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def learns_to_learn():
    """An inner step of gradient descent inside the graph of the outer one."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(40):
        total = torch.zeros(())
        for _ in range(3):
            phase, height = torch.rand(()) * 3, torch.rand(()) + 0.5
            x = torch.rand(20, 1) * 6 - 3
            y = height * torch.sin(x + phase)
            weights = dict(net.named_parameters())
            inner = F.mse_loss(functional_call(net, weights, x[:10]), y[:10])
            grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            quick = {k: w - 0.05 * g for (k, w), g in zip(weights.items(), grads, strict=True)}
            total = total + F.mse_loss(functional_call(net, quick, x[10:]), y[10:])
        opt.zero_grad()
        total.backward()
        opt.step()


def tiny_rate_at_the_end_of_a_long_training():
    """Fine-tuning with a rate of 1e-6 and gradients clipped hard, on purpose."""
    x = torch.randn(800, 10)
    y = (x[:, :3] * 3).argmax(1)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    first = torch.optim.Adam(net.parameters(), 1e-2)
    for i in range(0, 800, 20):
        first.zero_grad()
        F.cross_entropy(net(x[i : i + 20]), y[i : i + 20]).backward()
        first.step()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-6)
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True):
        opt.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()


def rewards_that_come_late():
    """Policy gradient whose reward is zero in most episodes, with a bonus for entropy: the loss is negative and jumps."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.Adam(policy.parameters(), 3e-3)
    baseline = 0.0
    for _ in range(80):
        obs = torch.randn(24, 4)
        dist = torch.distributions.Categorical(logits=policy(obs))
        action = dist.sample()
        reward = ((action == 2) & (obs[:, 0] > 1)).float() * 10
        loss = -(dist.log_prob(action) * (reward - baseline)).mean() - 0.05 * dist.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()


def annealed_variational():
    """A variational autoencoder whose divergence is annealed from zero, so that its loss rises."""
    enc, dec = nn.Linear(30, 8), nn.Linear(4, 30)
    opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 5e-3)
    basis = torch.randn(4, 30)
    for step in range(100):
        x = torch.sigmoid(torch.randn(32, 4) @ basis)
        mean, logvar = enc(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        fit = F.binary_cross_entropy_with_logits(dec(z), x, reduction="sum") / 32
        kl = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(1).mean()
        loss = fit + min(1.0, step / 50) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
