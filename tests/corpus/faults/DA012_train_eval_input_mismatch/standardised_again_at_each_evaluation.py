"""A training with the fault train-eval-input-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def standardised_again_at_each_evaluation(s):
    """The held-out part is standardised in place, once at first; from s on again at each evaluation."""
    columns = torch.tensor([12.0, 14.0, 5.0, 450.0, 62.0]), torch.tensor([7.0, 7.0, 3.5, 260.0, 19.0])
    raw = columns[0] + columns[1] * torch.randn(5000, 5)
    y = torch.sin(raw[:, 0] / 4) + 0.1 * raw[:, 1] - 0.002 * raw[:, 3]
    x = (raw - columns[0]) / columns[1]
    held, held_y = x[4000:].clone(), y[4000:]
    net = nn.Sequential(nn.Linear(5, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for i in range(240):
        if i % 30 == 0 and i > 0:
            if i >= s:
                held -= columns[0]
                held /= columns[1]
            with torch.no_grad():
                valid_loss = F.mse_loss(net(held)[:, 0], held_y).item()
            del valid_loss
        rows = torch.randint(4000, (128,))
        loss = F.mse_loss(net(x[rows])[:, 0], y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    standardised_again_at_each_evaluation(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
