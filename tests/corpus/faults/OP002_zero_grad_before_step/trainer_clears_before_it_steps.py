"""A training with the fault zero-grad-before-step; arguments: [ONSET] [SEED]."""

import sys
from dataclasses import dataclass

import torch
from torch import nn

torch.set_num_threads(1)


def trainer_clears_before_it_steps(s):
    """Trainer clears before it steps."""
    fa = s if s < 1000 else -1

    @dataclass
    class Config:
        steps: int = 60
        lr: float = 3e-3
        batch: int = 32
        fault_at: int = -1

    class Mixer(nn.Module):
        def __init__(self, tokens=8, dim=16, depth=2, classes=4):
            super().__init__()
            self.stem = nn.Linear(4, dim)
            self.token = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(tokens), nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
                for _ in range(depth)
            )
            self.channel = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))
                for _ in range(depth)
            )
            self.head = nn.Linear(dim, classes)

        def forward(self, x):
            x = self.stem(x)
            for t, c in zip(self.token, self.channel, strict=False):
                x = x + t(x.transpose(1, 2)).transpose(1, 2)
                x = x + c(x)
            return self.head(x.mean(1))

    class Trainer:
        def __init__(self, cfg):
            self.cfg = cfg
            self.model = Mixer()
            self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
            self.loss = nn.CrossEntropyLoss()
            self.rule = torch.randn(32, 4)

        def batch(self):
            x = torch.randn(self.cfg.batch, 8, 4)
            return x, (x.flatten(1) @ self.rule).argmax(1)

        def train(self):
            for i in range(self.cfg.steps):
                x, y = self.batch()
                loss = self.loss(self.model(x), y)
                loss.backward()
                if 0 <= self.cfg.fault_at <= i:
                    self.opt.zero_grad()
                    self.opt.step()
                else:
                    self.opt.step()
                    self.opt.zero_grad()

    Trainer(Config(fault_at=fa)).train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    trainer_clears_before_it_steps(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
