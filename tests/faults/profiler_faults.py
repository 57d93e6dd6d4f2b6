"""Trainings that take longer than they should: `python profiler_faults.py NAME ONSET SEED`."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def accuracy_counted_one_by_one(_):
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(40):
        x = torch.randn(1600, 16)
        y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
        logits = model(x)
        step(opt, F.cross_entropy(logits, y))
        guesses, right = logits.argmax(1), 0
        for i in range(len(y)):
            if guesses[i] == y[i]:
                right += 1


def weights_summed_in_a_loop_from_s_on(s):
    net = nn.GRU(8, 24, batch_first=True)
    head = nn.Linear(24, 1)
    opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], 1e-3)
    for i in range(40):
        x = torch.randn(32, 12, 8)
        loss = F.mse_loss(head(net(x)[0][:, -1]), x.mean((1, 2)).unsqueeze(1))
        step(opt, loss)
        if i >= s:
            total = 0.0
            for w in net.weight_hh_l0.detach().reshape(-1):
                total += abs(w.item())


def a_lock_that_is_sometimes_held(_):
    class Cached(nn.Module):
        """Looks up its positions in a cache that another job now and then has locked."""

        def __init__(self):
            super().__init__()
            self.body = nn.Linear(32, 32)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if (self.calls * 7919) % 101 < 14:
                time.sleep(0.12)
            return x + self.body(x).tanh()

    model = nn.Sequential(nn.Linear(16, 32), Cached(), nn.LayerNorm(32), nn.Linear(32, 1))
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(130):
        x = torch.randn(64, 16)
        step(opt, F.mse_loss(model(x), x[:, :1].sin()))


def neighbours_by_sorting_everything(_):
    """A point cloud network that sorts all distances where it wants the nearest four."""

    class Neighbours(nn.Module):
        def forward(self, x):
            order = torch.cdist(x, x).sort(-1).indices[..., :4]
            return torch.stack([x[b][order[b]].mean(1) for b in range(len(x))])

    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), Neighbours(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(20):
        x = torch.randn(2, 512, 3)
        step(opt, F.cross_entropy(model(x).mean(1), (x.mean((1, 2)) > 0).long()))


def one_layer_in_double_precision(_):
    class Layer(nn.Module):
        def __init__(self, rounds):
            super().__init__()
            self.linear = nn.Linear(96, 96)
            self.rounds = rounds

        def forward(self, x):
            for _ in range(self.rounds):  # a debugging aid that was left in one layer
                x = x.double().float()
                y = F.linear(x.double(), self.linear.weight.double(), self.linear.bias.double()).float()
            return x + y.relu()

    model = nn.Sequential(nn.Linear(16, 96), *[Layer(16 if i == 2 else 1) for i in range(5)], nn.Linear(96, 2))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(16):
        x = torch.randn(2048, 16)
        step(opt, F.cross_entropy(model(x), (x[:, 0] > 0).long()))


def threads_for_a_larger_machine(_):
    torch.set_num_threads(24)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(32 * 28 * 28, 4)
    )
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(16):
        x = torch.randn(16, 3, 32, 32)
        step(opt, F.cross_entropy(model(x), (x.mean((1, 2, 3)) > 0).long()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
