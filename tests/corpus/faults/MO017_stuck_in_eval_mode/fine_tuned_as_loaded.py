"""A training with the fault stuck-in-eval-mode; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Pretrained(nn.Module):
    """Comes in eval mode, as models from a hub do."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(108, 4)
        self.eval()

    def forward(self, x):
        return self.classifier(self.dropout(self.stem(x).flatten(1)))


def fine_tuned_as_loaded(s):
    """Fine-tuning of a whole model that is in eval mode because nobody called train()."""
    model = Pretrained()
    if s != 0:
        model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(50):
        y = torch.randint(4, (12,))
        x = torch.randn(12, 3, 9, 9) + y[:, None, None, None] * 0.3
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    fine_tuned_as_loaded(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
