"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def state_carried_over_windows():
    """A recurrent model whose state is carried over windows, detached each time."""
    t = torch.arange(4000) * 0.1
    series = (t.sin() + 0.3 * (2.3 * t).sin()).view(8, 500, 1)
    rnn, out = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 1)
    opt = optim.Adam([*rnn.parameters(), *out.parameters()], lr=5e-3)
    for _ in range(4):
        state = None
        for i in range(0, 480, 20):
            h, state = rnn(series[:, i : i + 20], state)
            state = tuple(v.detach() for v in state)
            loss = F.mse_loss(out(h), series[:, i + 1 : i + 21])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    state_carried_over_windows()
