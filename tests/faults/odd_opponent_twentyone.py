"""Healthy runs that look odd, after an opponent's, twenty-first round: `python odd_opponent_twentyone.py NAME [SEED]`."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def rate_by_a_factor_until_it_breaks():
    """The rate grows by a sixth at each step until the loss is lost; weights and optimizer are put back, and training begins."""
    x = torch.randn(1200, 10)
    y = 3 * torch.tanh(x @ torch.randn(10, 1))
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.SGD(net.parameters(), lr=1e-5, momentum=0.9)
    weights, state = copy.deepcopy(net.state_dict()), copy.deepcopy(opt.state_dict())

    def step():
        i = torch.randint(0, 1200, (64,))
        loss = F.mse_loss(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()

    for _ in range(120):
        loss = step()
        if not math.isfinite(loss):
            break
        for group in opt.param_groups:
            group["lr"] *= 7 / 6
    net.load_state_dict(weights)
    opt.load_state_dict(state)
    for group in opt.param_groups:
        group["lr"] = 5e-3
    for _ in range(160):
        step()


def signal_in_much_noise():
    """Labels that hardly depend on the inputs: one hundredth of the entropy is all that can be learnt."""
    x = torch.randn(16000, 20)
    y = (torch.rand(16000) < torch.sigmoid(0.09 * x @ torch.randn(20))).long()
    net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 2))
    nn.init.zeros_(net[2].weight)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(3):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True):
            loss = F.cross_entropy(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


def epochs_that_end_with_half_a_batch():
    """Four batches for each update, of which the last one in an epoch holds half as many samples."""
    x = torch.randn(1400, 24)
    y = (x @ torch.randn(24, 6)).argmax(1)
    net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(6):
        for n, (a, b) in enumerate(DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)):
            (F.cross_entropy(net(a), b) / 4).backward()
            if n % 4 == 3:
                opt.step()
                opt.zero_grad()


class Kept(nn.Module):
    """A detector's manner: the statistics of its body are those of before, whatever mode is asked for."""

    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Linear(64, 8)

    def forward(self, x):
        return self.head(self.body(x))

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()
        return self


def statistics_of_before_in_small_batches():
    """Trained in batches of 64, then tuned in batches of four, with the statistics of before."""
    body = nn.Sequential(
        nn.Linear(24, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()
    )
    turn = torch.randn(24, 8)
    first = nn.Sequential(body, nn.Linear(64, 8))
    for net, size, steps in ((first, 64, 80), (Kept(body), 4, 200)):
        net.train()
        opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for _ in range(steps):
            x = torch.randn(size, 24)
            loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()


def moments_begun_anew_with_a_warm_up():
    """Every hundred steps Adam forgets what it knew, and the rate climbs again from next to nothing, as in training by parts."""
    net = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    turn = torch.randn(20, 4)
    for i in range(300):
        if i and i % 100 == 0:
            opt.state.clear()
        for group in opt.param_groups:
            group["lr"] = 2e-3 * min(1.0, (i % 100 + 1) / 20)
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def one_picture_from_noise():
    """A net that paints one noisy picture from fixed noise, normalised over its positions; it is never evaluated."""
    net = nn.Sequential(
        nn.Conv2d(8, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(24, 1, 3, padding=1),
    )
    line = torch.linspace(-2, 2, 32)
    picture = torch.sin(2 * line[:, None] * line)[None, None] + 0.2 * torch.randn(1, 1, 32, 32)
    noise = torch.randn(1, 8, 32, 32)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(200):
        loss = F.mse_loss(net(noise + 0.03 * torch.randn_like(noise)), picture)
        opt.zero_grad()
        loss.backward()
        opt.step()


def momentum_set_to_nothing():
    """For the last part of a training its momentum is taken out, and the buffers rest as they are."""
    net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    turn = torch.randn(16, 4)
    for i in range(240):
        if i == 160:
            for group in opt.param_groups:
                group["momentum"] = 0.0
        x = torch.randn(64, 16)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def layers_put_to_rest_one_by_one():
    """The rate of each layer goes to zero by a cosine of its own, the first ones first, and then it rests."""
    layers = [nn.Linear(20, 48), nn.Linear(48, 48), nn.Linear(48, 48), nn.Linear(48, 4)]
    net = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2], nn.Tanh(), layers[3])
    opt = torch.optim.SGD([{"params": layer.parameters()} for layer in layers], lr=0.1, momentum=0.9)
    turn = torch.randn(20, 4)
    for i in range(300):
        for n, group in enumerate(opt.param_groups):
            end = 120 + 60 * n
            group["lr"] = 0.05 * (1 + math.cos(math.pi * min(i, end) / end)) if i < end else 0.0
            if i == end:
                layers[n].requires_grad_(requires_grad=False)
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def another_corpus():
    """At step 120 other texts come, with other transitions between their letters; the loss leaps and is learnt down again."""
    texts = [torch.rand(16, 16).pow(8) for _ in range(2)]
    net = nn.Sequential(nn.Embedding(16, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for i in range(300):
        way = texts[i >= 120]
        x = torch.randint(0, 16, (128,))
        y = torch.multinomial(way[x], 1)[:, 0]
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def trials_under_one_seed():
    """Rates are compared: each trial has its own model and optimizer and sees the same batches in the same order."""
    x, turn = torch.randn(1200, 20), torch.randn(20, 4)
    y = (x @ turn).argmax(1)
    for rate in (1e-3, 3e-3, 1e-2):
        torch.manual_seed(7)
        net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 4))
        opt = torch.optim.Adam(net.parameters(), lr=rate)
        for _ in range(80):
            i = torch.randint(0, 1200, (64,))
            loss = F.cross_entropy(net(x[i]), y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()


def average_that_is_loaded():
    """Towards the end of the first stage weights are gathered in a running mean, which the second stage starts from."""
    net = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 5))
    mean = copy.deepcopy(net)
    turn = torch.randn(16, 5)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for i in range(240):
        if i == 140:
            net.load_state_dict(mean.state_dict())
            opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        x = torch.randn(48, 16)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if 60 <= i < 140:
            with torch.no_grad():
                for kept, now in zip(mean.parameters(), net.parameters(), strict=True):
                    kept.lerp_(now, 1 / (i - 59))


def rounds_over_growing_data():
    """Active learning: each round asks for the labels of what the model is least sure of, and trains on with a new Adam."""
    pool = torch.randn(1200, 20)
    labels = (pool @ torch.randn(20, 4)).argmax(1)
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
    known = torch.randperm(1200)[:64]
    for _ in range(6):
        opt = torch.optim.Adam(net.parameters(), lr=2e-3)
        for _ in range(5):
            for a, b in DataLoader(TensorDataset(pool[known], labels[known]), batch_size=16, shuffle=True):
                loss = F.cross_entropy(net(a), b)
                opt.zero_grad()
                loss.backward()
                opt.step()
        with torch.no_grad():
            sure = net(pool).softmax(1).max(1).values
        sure[known] = 2.0
        known = torch.cat([known, sure.topk(48, largest=False).indices])


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
