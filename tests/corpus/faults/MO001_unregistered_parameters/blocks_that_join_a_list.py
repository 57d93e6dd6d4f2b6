"""A training with the fault unregistered-parameters; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Growing(nn.Module):
    """Blocks of which each explains what those before it have left."""

    def __init__(self, held):
        super().__init__()
        self.first = self.block()
        self.more = held

    @staticmethod
    def block():
        return nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, x):
        y = self.first(x)
        for block in self.more:
            y = y + block(x - y)
        return y


def blocks_that_join_a_list(s):
    """At s two blocks join the model, which keeps them in a list, and a new optimizer gets its parameters."""
    model = Growing([] if s <= 200 else nn.ModuleList())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    turn = torch.randn(16, 16) / 4
    for i in range(200):
        if i == min(s, 100):
            for _ in range(2):
                block = model.block()
                nn.init.zeros_(block[2].weight)  # what joins changes nothing at first
                model.more.append(block)
            new = [p for block in model.more for p in block.parameters()] if s > 200 else []
            if new:
                opt.add_param_group({"params": new})
        x = torch.randn(64, 16)
        loss = F.smooth_l1_loss(model(x), torch.tanh(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    blocks_that_join_a_list(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
