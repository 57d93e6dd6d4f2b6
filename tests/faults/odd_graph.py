"""Healthy runs with checkpointed blocks, and evaluations before anything is trained: `python odd_graph.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from faulty import batches, blobs, mlp
from graph_faults import Stem
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)


class Deep(nn.Module):
    """Blocks that are checkpointed the old way, behind a stem that trains."""

    def __init__(self, frozen=False):
        super().__init__()
        self.stem = nn.Linear(16, 32)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(3)])
        self.head = nn.Linear(32, 4)
        if frozen:
            for p in (*self.stem.parameters(), *self.blocks.parameters()):
                p.requires_grad = False

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x)


def train(model, steps=40, lr=3e-3, x=None, y=None):
    if x is None:
        x, y = blobs()
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr)
    for _, (a, b) in zip(range(steps), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def checkpointed_the_old_way():
    train(Deep())


def checkpointed_with_a_frozen_body():
    train(Deep(frozen=True))


def checkpointed_input_that_requires_a_gradient():
    model = Stem()
    model.saving = True
    model.register_forward_pre_hook(lambda m, args: (args[0].clone().requires_grad_(),))
    train(model)


def sanity_check_before_batch_norm_has_seen_anything():
    x, y = blobs()
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    model.eval()
    with torch.no_grad():
        model(torch.randn(64, 16) * 2)
    model.train()
    train(model, x=x, y=y)


def sanity_check_of_a_plain_model():
    model = mlp()
    model.eval()
    with torch.no_grad():
        model(torch.randn(64, 16) * 2)
    model.train()
    train(model)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
