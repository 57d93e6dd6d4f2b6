"""Trains for 400 steps and ends with status 3; says which step it has reached in the file given, if any, and takes at least
some seconds, so that the test can do something to the disk meanwhile. Arguments: [PROGRESS] [SECONDS_A_WRITE]."""

import os
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
if len(sys.argv) > 2:
    seconds, write = float(sys.argv[2]), os.write

    def slow(fd: int, data: bytes) -> int:
        """A disk that takes its time."""
        time.sleep(seconds)
        return write(fd, data)

    os.write = slow
model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(10)])
for step in range(400):
    loss = model(torch.randn(4, 16)).pow(2).mean()
    loss.backward()
    with torch.no_grad():  # an optimizer would load torch._dynamo, which takes as long as torch itself
        for weight in model.parameters():
            weight.sub_(weight.grad, alpha=1e-3)
            weight.grad = None
    if len(sys.argv) == 2:
        with open(sys.argv[1], "w") as file:  # noqa: PTH123
            file.write(str(step))
        time.sleep(0.005)
print(loss.item().hex())
raise SystemExit(3)
