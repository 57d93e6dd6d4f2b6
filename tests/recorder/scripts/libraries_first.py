"""Imports the library that the first argument names, as scripts do that import it first, then torch, then trains."""

import importlib
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")
importlib.import_module(sys.argv[1])

import torch  # noqa: E402 — that it comes second is what is tried

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(20):
    x = torch.randn(32, 4)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
