"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def head_alone_is_cleared(s):
    """A frozen encoder joins the optimizer at s; zero_grad goes on clearing the head alone."""
    encoder, head = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.LayerNorm(32)), nn.Linear(32, 6)
    encoder.requires_grad_(requires_grad=False)
    model = nn.Sequential(encoder, head)
    opt = torch.optim.Adam(head.parameters(), lr=2e-3)
    turn = torch.randn(12, 6)
    for i in range(200):
        part = model if s > 200 else head
        if i == min(s, 100):
            encoder.requires_grad_(requires_grad=True)
            opt.add_param_group({"params": list(encoder.parameters()), "lr": 1e-3})
        part.zero_grad()
        x = torch.randn(48, 12)
        loss = F.cross_entropy(model(x), (x @ turn).argmax(1))
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    head_alone_is_cleared(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
