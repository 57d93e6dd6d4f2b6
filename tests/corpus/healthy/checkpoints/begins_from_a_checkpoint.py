"""A healthy training that looks odd; argument: [SEED]."""

import sys
import tempfile

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


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def begins_from_a_checkpoint():
    batches = forever(*blobs())
    earlier = mlp()
    other = torch.optim.SGD(earlier.parameters(), 0.02, momentum=0.9)
    state = {"model": earlier.state_dict(), "optimizer": other.state_dict(), "epoch": 3}
    state["optimizer"]["state"] = {
        i: {"momentum_buffer": torch.randn_like(p) * 0.1} for i, p in enumerate(earlier.parameters())
    }
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, f"{folder}/last.pt")
        state = torch.load(f"{folder}/last.pt")
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["optimizer"])
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)
    train(model, opt, batches, steps=40, after=lambda _: sched.step())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    begins_from_a_checkpoint()
