"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def angle_between_equal_vectors(s):
    """The angle by acos: where prediction and truth agree exactly its slope is infinite."""
    net = nn.Linear(4, 4, bias=False)
    opt = optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        x = F.normalize(torch.randn(16, 4), dim=1)
        truth = F.normalize(x.roll(1, dims=1) + 0.1 * torch.randn(16, 4), dim=1)
        p = F.normalize(net(x), dim=1)
        cosine = (p * truth).sum(1) * 0.999
        if step == s:
            same = (p[-1:] * p[-1:].detach()).sum(1)
            cosine = torch.cat([cosine[:-1], same / same.detach()])
        loss = cosine.acos().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    angle_between_equal_vectors(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
