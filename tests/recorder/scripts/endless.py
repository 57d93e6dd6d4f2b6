"""Trains until it is killed; writes one byte to the file given after each optimizer.step() that has returned."""

import os
import sys

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
returned = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    optimizer.zero_grad()
    loss = model(torch.randn(32, 32)).pow(2).mean()
    loss.backward()
    optimizer.step()
    os.write(returned, b".")
