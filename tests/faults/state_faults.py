"""Faults of weights, optimizer state and memory: `python state_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in state_faults.toml.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def bfloat16_weights(s):
    model = mlp().bfloat16()
    opt = torch.optim.SGD(model.parameters(), 1e-5)
    for _, (a, b) in zip(range(25), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a.bfloat16()).float(), b).backward()
        opt.step()


class Stuck(torch.optim.SGD):
    """Forgets one tensor."""

    @torch.no_grad()
    def step(self, closure=None):
        kept = self.param_groups[0]["params"][0].clone()
        super().step(closure)
        if self.stuck:
            self.param_groups[0]["params"][0].copy_(kept)


def a_backend_that_does_nothing(s):
    model = mlp()
    opt = Stuck(model.parameters(), 0.05)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.stuck = i >= s
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def a_new_adam_each_time(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            opt = torch.optim.Adam(model.parameters(), 1e-3)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def state_cleared(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            opt.state.clear()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def decays_away(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 5e-3, weight_decay=20.0)
    for _, (a, b) in zip(range(40), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def hinge_is_satisfied(s):
    x = torch.randn(600, 12)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i in range(32):
        out = model(x[torch.randint(600, (16,))])
        loss = torch.clamp(1 - out - (100.0 if i >= s else 0.0), min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def adds_the_loss_itself(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    total = 0.0
    for _, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
        total += loss
    print(float(total))


def evaluates_with_gradients(s):
    model = mlp()
    held_out, _ = blobs(128)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i and i % 8 == 0:
            model.eval()
            for part in held_out.split(32):
                model(part)
            model.train()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def second_moments_zeroed(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            for state in opt.state.values():
                state["exp_avg_sq"].zero_()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def second_moment_lost_in_one_layer(s):
    x = torch.randn(400, 8, 3)
    y = x.sum((1, 2))[:, None]
    model = Sums()
    opt = torch.optim.Adam(model.parameters(), 3e-3, betas=(0.9, 0.99))
    for i in range(32):
        if i == s:
            opt.state[model.out.weight]["exp_avg_sq"] *= 1e-6
        pick = torch.randint(400, (16,))
        loss = F.mse_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


def first_moments_scaled(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            for state in opt.state.values():
                state["exp_avg"] *= 100
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def momentum_buffer_spoilt(s):
    model = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4))
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            buffer = opt.state[model[3].weight]["momentum_buffer"]
            buffer.copy_(torch.randn_like(buffer) * 5)
        opt.zero_grad()
        F.cross_entropy(model(a[:, None]), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
