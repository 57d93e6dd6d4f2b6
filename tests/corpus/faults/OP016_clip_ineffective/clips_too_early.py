"""A training with the fault clip-ineffective; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clips_too_early(s):
    """The clip stands before the backward pass."""
    net = nn.RNN(4, 24, batch_first=True)
    head = nn.Linear(24, 1)
    params = [*net.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, lr=0.05)
    for _ in range(60):
        x = torch.randn(16, 15, 4)
        y = x[:, -1, :1] * 3
        loss = F.mse_loss(head(net(x)[0][:, -1]), y)
        opt.zero_grad(set_to_none=False)
        if s == 0:
            nn.utils.clip_grad_norm_(params, 0.5)
        loss.backward()
        if s != 0:
            nn.utils.clip_grad_norm_(params, 0.5)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_too_early(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
