"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def rows_of_houses(n=1000):
    x = torch.randn(n, 7)
    y = x[:, 0] * 2 - x[:, 1] + 0.5 * (x[:, 2] * x[:, 3]) + 0.1 * torch.randn(n)
    return x, y


def steps_of(loader, count):
    done = 0
    while done < count:
        for batch in loader:
            yield done, batch
            done += 1
            if done == count:
                return


def empty_cell_in_the_table(s):
    """A cell of a table is empty and becomes NaN."""
    x, y = rows_of_houses()
    model = nn.Sequential(nn.Linear(7, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    if s < 120:
        x[s * 8 + 3, 4] = float("nan")
    for _, (a, b) in steps_of(DataLoader(TensorDataset(x, y), 8), 120):
        loss = F.smooth_l1_loss(model(a).squeeze(-1), b)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    empty_cell_in_the_table(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
