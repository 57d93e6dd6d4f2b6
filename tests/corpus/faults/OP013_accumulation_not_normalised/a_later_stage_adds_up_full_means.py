"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Stage:
    """One stage of training with an optimizer of its own."""

    def __init__(self, params, accumulate):
        self.accumulate = accumulate
        self.opt = torch.optim.SGD(params, lr=0.03, momentum=0.9)

    def run(self, updates, losses, divide):
        for _ in range(updates):
            self.opt.zero_grad()
            for _ in range(self.accumulate):
                loss = losses()
                (loss / self.accumulate if divide else loss).backward()
            self.opt.step()


def a_later_stage_adds_up_full_means(s):
    """Contrastive pretraining until s; then labels, eight parts an update, none of them divided."""
    centres = torch.randn(6, 32)
    body = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    project, classify = nn.Linear(64, 16), nn.Linear(64, 6)

    def pairs():
        x = centres[torch.randint(0, 6, (32,))] + 0.9 * torch.randn(32, 32)
        z = F.normalize(torch.cat([project(body(x + 0.5 * torch.randn(32, 32))) for _ in range(2)]), dim=1)
        alike = (z @ z.T / 0.5).fill_diagonal_(-1e4)
        return F.cross_entropy(alike, torch.cat([torch.arange(32, 64), torch.arange(32)]))

    def labels():
        y = torch.randint(0, 6, (32,))
        return F.cross_entropy(classify(body(centres[y] + 0.9 * torch.randn(32, 32))), y)

    Stage([*body.parameters(), *project.parameters()], 1).run(min(s, 40), pairs, True)
    Stage([*body.parameters(), *classify.parameters()], 8).run(60, labels, s > 1000)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_later_stage_adds_up_full_means(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
