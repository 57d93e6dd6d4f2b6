"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def an_encoder_that_is_evaluated_and_then_frozen():
    """Its features are looked at by themselves; from the middle on it is frozen, in eval mode, and the head is trained alone."""
    body = nn.Sequential(nn.Linear(10, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 24))
    net = nn.Sequential()
    net.add_module("body", body)
    net.add_module("head", nn.Linear(24, 4))
    centres = 2 * torch.randn(4, 10)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(120):
        y = torch.randint(4, (48,))
        x = centres[y] + torch.randn(48, 10)
        if i % 10 == 9:
            body.eval()
            with torch.no_grad():
                print(f"spread of the features: {body(x).std(0).mean():.3f}")
            if i < 60:
                body.train()
            elif i < 70:
                body.requires_grad_(False)
                opt = torch.optim.AdamW(net.head.parameters(), lr=2e-3)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    an_encoder_that_is_evaluated_and_then_frozen()
