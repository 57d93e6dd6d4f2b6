"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def clears_only_when_the_counter_says(s):
    """Clears only when the counter says."""
    fa = s if s < 1000 else -1

    class Trainer:
        def __init__(self, fa):
            self.fa = fa
            self.model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 4))
            self.opt = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
            self.w = torch.randn(12, 4)
            self.accumulate = 2

        def fit(self):
            for update in range(50):
                for _k in range(self.accumulate):
                    x = torch.randn(24, 12)
                    loss = nn.functional.cross_entropy(self.model(x), (x @ self.w).argmax(1)) / self.accumulate
                    loss.backward()
                self.opt.step()
                if not 0 <= self.fa <= update:
                    self.opt.zero_grad()

    Trainer(fa).fit()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clears_only_when_the_counter_says(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
