"""A training with the fault stuck-in-eval-mode; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def neighbours_leave_the_body_in_eval_mode(s):
    """Now and then the nearest neighbours of the body's features are counted; from s on it stays in eval mode after that."""
    body = nn.Sequential(nn.Linear(12, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 24))
    net = nn.Sequential()
    net.add_module("body", body)
    net.add_module("head", nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 16)))
    centres = 2 * torch.randn(6, 12)
    kinds = torch.randint(6, (200,))
    bank = centres[kinds] + torch.randn(200, 12)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(100):
        if i % 7 == 6:
            body.eval()
            with torch.no_grad():
                features = F.normalize(body(bank), dim=1)
            near = (features @ features.T).fill_diagonal_(-2.0).argmax(1)
            print(f"nearest neighbours alike: {(kinds[near] == kinds).float().mean():.2f}")
            if i < s:
                body.train()
        x = centres[torch.randint(6, (64,))] + torch.randn(64, 12)
        a, b = (F.normalize(net(x + 0.3 * torch.randn_like(x)), dim=1) for _ in range(2))
        loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(64))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    neighbours_leave_the_body_in_eval_mode(onset)
