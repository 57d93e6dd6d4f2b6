"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def two_losses_in_more_and_more_parts(s):
    """From s on six parts make an update, and neither of the two losses is divided."""
    named, valued = torch.randn(14, 3), torch.randn(14)
    trunk = nn.Sequential(nn.Linear(14, 48), nn.Tanh(), nn.Linear(48, 32), nn.Tanh())
    classify, regress = nn.Linear(32, 3), nn.Linear(32, 1)
    net = nn.ModuleList([trunk, classify, regress])
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    for i in range(90):
        parts = 1 if i < min(s, 27) else 6
        opt.zero_grad()
        for _ in range(parts):
            x = torch.randn(24, 14)
            h = trunk(x)
            loss = F.cross_entropy(classify(h), (x @ named).argmax(1))
            loss = loss + 2.0 * F.mse_loss(regress(h).squeeze(-1), torch.tanh(x @ valued / 3))
            (loss if i >= s else loss / parts).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    two_losses_in_more_and_more_parts(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
