"""Healthy runs whose optimizer state, checkpoints or copies look odd: `python odd_state.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from state_faults import blobs, forever, mlp
from torch import nn

torch.set_num_threads(1)


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def one_optimizer_of_each_kind():
    batches = forever(*blobs())
    for kind, settings in (
        (torch.optim.Adam, {"lr": 1e-3, "amsgrad": True, "weight_decay": 0.5}),
        (torch.optim.AdamW, {"lr": 1e-3, "betas": (0.5, 0.6), "weight_decay": 1.0}),
        (torch.optim.NAdam, {"lr": 1e-3}),
        (torch.optim.RAdam, {"lr": 1e-3, "weight_decay": 0.1}),
        (torch.optim.Adamax, {"lr": 1e-3}),
        (torch.optim.RMSprop, {"lr": 1e-3, "momentum": 0.9, "centered": True}),
        (torch.optim.Adagrad, {"lr": 1e-2}),
        (torch.optim.Adadelta, {"lr": 0.1}),
        (torch.optim.SGD, {"lr": 0.01, "momentum": 0.99, "dampening": 0.5, "weight_decay": 0.1}),
        (torch.optim.Rprop, {"lr": 1e-3}),
    ):
        model = mlp()
        train(model, kind(model.parameters(), **settings), batches, steps=12)


class Lion(torch.optim.Optimizer):
    """Sign of an average: its beta2 is the decay of the momentum."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p -= group["lr"] * (first * average + (1 - first) * p.grad).sign()
                average.mul_(second).add_(p.grad, alpha=1 - second)


def an_optimizer_of_its_own():
    model = mlp()
    train(model, Lion(model.parameters(), 1e-3), forever(*blobs()), steps=40)


def gradients_that_vanish_and_return():
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
    for i, (a, b) in zip(range(90), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        for p in model.parameters():
            p.grad *= 1e-3 if 20 <= i < 60 else 1.0
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
