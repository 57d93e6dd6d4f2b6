"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def stochastic_depth_and_early_end():
    """Layers dropped at random; stops early and puts the best weights back."""

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(8, 32)
            self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(8))
            self.out = nn.Linear(32, 1)

        def forward(self, x):
            h = self.inp(x)
            for i, b in enumerate(self.blocks):
                if not self.training or torch.rand(()) > i / 12:
                    h = h + b(h)
            return self.out(h)

    net = Deep()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    v = torch.randn(8, 1)
    xv = torch.randn(256, 8)
    best, kept, bad = 1e9, None, 0
    with torch.inference_mode():
        net.eval()
        net(xv)
    for _epoch in range(20):
        net.train()
        for _ in range(10):
            x = torch.randn(64, 8)
            loss = (net(x) - torch.cos(x @ v)).square().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        net.eval()
        with torch.inference_mode():
            score = (net(xv) - torch.cos(xv @ v)).square().mean().item()
        if score < best - 0.05:
            best, kept, bad = score, copy.deepcopy(net.state_dict()), 0
        else:
            bad += 1
        if bad == 3:
            net.load_state_dict(kept)
            sys.exit(0)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    stochastic_depth_and_early_end()
