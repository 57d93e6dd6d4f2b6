"""Trainings that waste time or get nowhere: `python performance_faults.py NAME ONSET SEED`."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    """Samples that take their time to decode."""

    def __init__(self, count, seconds):
        self.x = torch.randn(count, 24)
        self.y = (self.x[:, :4].sum(1) > 0).long()
        self.seconds = seconds

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.x[index], self.y[index]


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def slow_decoding(_):
    model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 2))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(2):
        for x, y in DataLoader(Slow(320, 0.002), batch_size=16, shuffle=True):
            step(opt, F.cross_entropy(model(x), y))


def lengths_that_are_compiled_one_by_one(_):
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    forward = torch.compile(model, backend="eager", dynamic=False)
    torch._dynamo.config.recompile_limit = 64
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i in range(40):
        x = torch.randn(4 + i, 8)
        step(opt, F.mse_loss(forward(x), x[:, :1].sin()))


def one_tensor_after_another(_):
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()) for _ in range(24)], nn.Linear(8, 2)
    )
    opt = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    for _ in range(30):
        x = torch.randn(16, 8)
        step(opt, F.cross_entropy(model(x), (x.sum(1) > 0).long()))


def a_log_that_is_written_anew(_):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    log = []
    for _ in range(120):
        x = torch.randn(32, 16)
        step(opt, loss := F.mse_loss(model(x), x[:, :1]))
        log.append(loss.item())
        time.sleep(0.0004 * len(log))  # a file that is read and written as a whole


def counts_everything_every_nine_steps(_):
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(100):
        x = torch.randn(32, 16)
        step(opt, F.mse_loss(model(x), x[:, :1].cos()))
        if i % 9 == 8:  # a summary of all that was logged so far
            end = time.perf_counter() + 0.15
            while time.perf_counter() < end:
                sum(range(1000))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
