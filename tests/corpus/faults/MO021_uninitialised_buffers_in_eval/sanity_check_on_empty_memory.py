"""A training with the fault uninitialised-buffers-in-eval; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Quantised(nn.Module):
    """Scales by a running maximum that is left as memory was until training sets it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv1d(3, 8, 3)
        self.register_buffer("largest", torch.empty(1).fill_(2.0e-30))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        h = self.inner(x)
        if self.training:
            self.largest.copy_(h.detach().abs().max())
        return self.head((h / self.largest).mean(2))


def sanity_check_on_empty_memory(s):
    model = Quantised()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    model.eval()
    with torch.no_grad():
        model(torch.randn(4, 3, 12))
    model.train()
    for _ in range(20):
        x = torch.randn(12, 3, 12)
        opt.zero_grad()
        F.cross_entropy(model(x), (x.mean((1, 2)) > 0).long()).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sanity_check_on_empty_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
