"""Records itself: `python by_api.py RUN MODE`."""

import os
import signal
import sys

import torch
from firstfault.recorder import Recorder
from torch import nn

torch.manual_seed(0)
run, mode = sys.argv[1:]
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def train(rec, steps):
    for i in range(steps):
        x = torch.randn(16, 6)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        if mode == "by_hand":
            grads = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for p, g in zip(model.parameters(), grads, strict=True):
                    p.sub_(0.05 * g)
        else:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        rec.step(loss=loss, accuracy=i / 10)
        if mode == "raises" and i == 5:
            raise RuntimeError("the shelf is empty")
        if mode == "killed" and i == 5:
            os.kill(os.getpid(), signal.SIGKILL)


with Recorder(run, model=model, optimizer=optimizer, config={"lr": 0.05, "name": "é"}) as rec:
    train(rec, 10)
with torch.no_grad():
    print(model(torch.ones(1, 6)).item().hex())
