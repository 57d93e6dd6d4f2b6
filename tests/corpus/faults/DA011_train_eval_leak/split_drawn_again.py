"""A training with the fault train-eval-leak; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def split_drawn_again(s):
    """At s samples are split again, and what was held out until then is trained on."""
    x = torch.randn(480, 20)
    y = (x @ torch.randn(20) + 0.5 * torch.randn(480) > 0).float()
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    kept, held = x[:320], slice(320, None)
    step = 0
    targets = y[:320]
    while step < 160:
        if step >= s:
            order = torch.randperm(480)[:320]
            kept, targets = x[order], y[order]
            s = 10**9
        for a, b in DataLoader(TensorDataset(kept, targets), batch_size=32, shuffle=True):
            loss = F.binary_cross_entropy_with_logits(net(a)[:, 0], b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[held], y[held]), batch_size=80):
                F.binary_cross_entropy_with_logits(net(a)[:, 0], b).item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    split_drawn_again(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
