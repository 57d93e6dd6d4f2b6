"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def prices_in_cents(s):
    """Tabular regression; one file holds its numbers in another unit."""
    w = torch.randn(12)
    model = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(120):
        x = torch.randn(32, 12)
        y = (x @ w).unsqueeze(1) + 0.1 * torch.randn(32, 1)
        if step == s:
            x = x * 1000
        loss = F.smooth_l1_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    prices_in_cents(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
