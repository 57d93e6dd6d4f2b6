"""A training with the fault scheduler-stepped-too-often; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def scheduler_in_the_inner_loop(s):
    """Scheduler in the inner loop."""
    fa = s if s < 1000 else -1
    wrong = fa >= 0

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(1, 24, 4, 4)
            self.cls = nn.Parameter(torch.zeros(1, 1, 24))
            self.pos = nn.Parameter(torch.randn(1, 5, 24) * 0.02)
            self.blocks = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(24, 3, 48, 0.0, batch_first=True, norm_first=True),
                2,
                enable_nested_tensor=False,
            )
            self.head = nn.Linear(24, 4)

        def forward(self, x):
            t = self.patch(x).flatten(2).transpose(1, 2)
            t = torch.cat([self.cls.expand(len(x), -1, -1), t], 1) + self.pos
            return self.head(self.blocks(t)[:, 0])

    model = ViT()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    updates, accumulate = 60, 4
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, updates + 1)
    for _u in range(updates):
        opt.zero_grad()
        for _m in range(accumulate):
            y = torch.randint(4, (8,))
            x = torch.randn(8, 1, 8, 8) * 0.3
            for j, k in enumerate(y.tolist()):
                x[j, 0, (k // 2) * 4 : (k // 2) * 4 + 4, (k % 2) * 4 : (k % 2) * 4 + 4] += 1
            (nn.functional.cross_entropy(model(x), y) / accumulate).backward()
            if wrong:
                sched.step()
        opt.step()
        if not wrong:
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scheduler_in_the_inner_loop(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
