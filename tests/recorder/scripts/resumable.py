"""Trains in epochs over shuffled data, saving every 10 steps; killed before the step given, it goes on from its checkpoint
when it is started again. Arguments: CHECKPOINT KILL_AT [forget]: `forget` loads the weights alone."""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

path, kill_at, forget = Path(sys.argv[1]), int(sys.argv[2]), "forget" in sys.argv
torch.manual_seed(0)
x = torch.randn(320, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
step, written = 0, path.with_suffix(".new")
if path.exists():
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    step = saved["step"]
    if not forget:
        optimizer.load_state_dict(saved["optimizer"])
while step < 60:
    for batch, target in loader:
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = (model(batch) - target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, written)
            written.replace(path)  # whoever is killed in the middle leaves the last checkpoint whole
