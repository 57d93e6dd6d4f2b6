"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def state_is_carried_from_chunk_to_chunk():
    """RMSprop on noisy targets, hidden state carried on: the first loss is low by chance, the first steps are long."""
    torch.manual_seed(4)
    net, head = nn.GRU(2, 32, batch_first=True), nn.Linear(32, 1)
    opt = torch.optim.RMSprop([*net.parameters(), *head.parameters()], lr=2e-3)
    state = None
    for _ in range(70):
        x = torch.stack([torch.randn(20, 12), (torch.rand(20, 12) < 0.3).float()], -1)
        y = (x[..., 0] * x[..., 1]).cumsum(1)[..., None] * 0.5
        out, state = net(x, state)
        loss = (head(out) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = state.detach()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    state_is_carried_from_chunk_to_chunk()
