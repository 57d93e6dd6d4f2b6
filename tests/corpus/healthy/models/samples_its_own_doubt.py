"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def samples_its_own_doubt():
    """Dropout stays on in the evaluation on purpose: the spread of thirty passes is the doubt."""
    x, y = clouds(480)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for step in range(60):
        model.train()
        i = torch.randint(480, (24,))
        update(opt, F.cross_entropy(model(x[i]), y[i]))
        if step % 20 == 19:
            model.eval()
            for m in model:
                if isinstance(m, nn.Dropout):
                    m.train()
            with torch.no_grad():
                torch.stack([model(x[:50]).softmax(1) for _ in range(30)]).std(0).mean().item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    samples_its_own_doubt()
