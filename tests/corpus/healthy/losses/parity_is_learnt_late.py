"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def parity_is_learnt_late():
    """A recurrent classifier of two tokens' parity: nothing shows in the loss for the first hundreds of steps."""
    table, net, head = nn.Embedding(12, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 2)
    opt = torch.optim.Adam([p for part in (table, net, head) for p in part.parameters()], lr=5e-3)
    for _ in range(160):
        x = torch.randint(12, (24, 8))
        loss = nn.functional.cross_entropy(head(net(table(x))[0][:, -1]), (x[:, 0] + x[:, 3]) % 2)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    parity_is_learnt_late()
