"""Faults of the model and its modes: `python model_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in model_faults.toml.
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


def train(model, steps, data=None, lr=1e-3, each=lambda i: None):
    opt = torch.optim.Adam(model.parameters(), lr)
    for i, (a, b) in zip(range(steps), data or forever(*blobs()), strict=False):
        each(i)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(12, 24)
        self.layers = [nn.Linear(24, 24) for _ in range(2)]
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        x = torch.relu(self.inlet(x))
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = {"a": nn.Linear(12, 16), "b": nn.Linear(12, 16)}
        self.gate = nn.Linear(12, 1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return self.head(torch.tanh(g * self.experts["a"](x) + (1 - g) * self.experts["b"](x)))


def layers_in_a_list(s):
    train(Listed(), 20)


def experts_in_a_dict(s):
    train(Experts(), 20)


def frozen_and_held(s):
    model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(s + 12), forever(*blobs()), strict=False):
        if i == s:
            model[2].requires_grad_(False)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def ten_times_a_layer(s):
    layers = []
    for i in range(6):
        layer = nn.Linear(12 if i == 0 else 32, 32)
        nn.init.normal_(layer.weight, std=1.2)
        layers += [layer, nn.ReLU()]
    train(nn.Sequential(*layers, nn.Linear(32, 4)), 20)


def saturated_tanh(s):
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
    with torch.no_grad():
        model[2].bias.copy_(torch.where(torch.rand(32) > 0.5, 6.0, -6.0))
    train(model, 20)


def constant_weights(s):
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))
    for p in model.parameters():
        nn.init.constant_(p, 0.05)
    train(model, 20)


def wide_normal(s):
    model = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
    nn.init.normal_(model[2].weight, std=1.0)
    train(model, 20)


def narrow_normal(s):
    model = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    nn.init.normal_(model[2].weight, std=1e-5)
    train(model, 20)


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.norm(self.body(x)))))


def stays_in_eval(s):
    model = Dropping()
    held_out, _ = blobs(64)

    def evaluate(i):
        if i == s:
            model.eval()
            with torch.no_grad():
                model(held_out)

    train(model, s + 12, each=evaluate)


def evaluates_in_train_mode(s):
    model = Dropping()
    held_out, _ = blobs(64)

    def evaluate(i):
        if i % 10 == 9:
            with torch.no_grad():
                for part in held_out.split(16):
                    model(part)

    train(model, 30, each=evaluate)


def two_samples_a_batch(s):
    train(Dropping(), 30, data=forever(*blobs(), size=2))


def momentum_one(s):
    model = Dropping()
    model.norm = nn.BatchNorm1d(32, momentum=1.0)
    train(model, 20)


def a_head_that_nobody_calls(s):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(12, 24)
            self.head = nn.Linear(24, 4)
            self.aux = nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 2))

        def forward(self, x):
            return self.head(torch.relu(self.body(x)))

    train(Two(), 20)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
