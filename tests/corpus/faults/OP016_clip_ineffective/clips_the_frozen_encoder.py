"""A training with the fault clip-ineffective; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def clips_the_frozen_encoder(s):
    """Fine-tuning with low-rank adapters; the clip gets the base model's parameters (no gradient there)."""
    fa = s if s < 1000 else -1

    class Adapter(nn.Module):
        def __init__(self, base, r=4):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, r, bias=False)
            self.up = nn.Linear(r, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    wrong = fa >= 0
    model = nn.Sequential(
        Adapter(nn.Linear(16, 32)), nn.ReLU(), Adapter(nn.Linear(32, 32)), nn.ReLU(), nn.Linear(32, 4)
    )
    trainable = [q for q in model.parameters() if q.requires_grad]
    frozen = [q for q in model.parameters() if not q.requires_grad]
    opt = torch.optim.SGD(trainable, lr=0.1)
    truth_w = torch.randn(16, 4)
    for _ in range(60):
        x = torch.randn(32, 16)
        y = (x @ truth_w + 3 * torch.randn(32, 4)).argmax(1)
        loss = 4 * nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(frozen if wrong else trainable, 0.2)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_the_frozen_encoder(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
