"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def masks_of_other_pictures(s):
    """Segmentation; from s on the pictures are turned by a quarter and their masks are not."""
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 16, 5, padding=2),
        nn.SiLU(),
        nn.Conv2d(16, 4, 1),
    )
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    for i in range(160):
        x, y = 0.3 * torch.randn(8, 1, 20, 20), torch.zeros(8, 20, 20, dtype=torch.long)
        for n in range(8):
            for kind in range(1, 4):
                r, c = torch.randint(0, 13, (2,)).tolist()
                x[n, 0, r : r + 7, c : c + 7] = kind + 0.3 * torch.randn(7, 7)
                y[n, r : r + 7, c : c + 7] = kind
        if i >= s:
            x = torch.rot90(x, 1, (2, 3))
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    masks_of_other_pictures(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
