"""A healthy training that looks odd."""

import time

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def a_machine_that_is_sometimes_busy():
    """Another process takes the processor now and then, whatever runs."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    when = torch.randint(3, (90,)).tolist()
    stalled = None
    model[1].register_forward_hook(lambda *_: time.sleep(0.04) if stalled == 0 else None)
    for i in range(90):
        stalled = when[i] if i % 5 == 2 else None
        x = torch.randn(64, 32)
        loss = F.mse_loss(model(x), x[:, :1])
        if stalled == 1:
            loss.register_hook(lambda g: time.sleep(0.05))
        step(opt, loss)
        if stalled == 2:
            time.sleep(0.04)


if __name__ == "__main__":
    torch.manual_seed(0)
    a_machine_that_is_sometimes_busy()
