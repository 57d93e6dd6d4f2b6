"""A training with the fault optimizer-state-lost; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def state_cleared_to_save_memory(s):
    """State cleared to save memory."""
    fa = s if s < 1000 else -1
    enc = nn.TransformerEncoderLayer(24, 4, 48, 0.0, batch_first=True)
    inp, out = nn.Linear(3, 24), nn.Linear(24, 3)
    params = [*enc.parameters(), *inp.parameters(), *out.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    for step in range(80):
        if step == fa:
            opt.state.clear()
        x = torch.cumsum(torch.randn(16, 12, 3) * 0.3, 1)
        loss = (out(enc(inp(x[:, :-1]))) - x[:, 1:]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    state_cleared_to_save_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
