"""A training with the fault hook-leak; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def a_hook_more_every_step(s):
    """A hook more every step."""
    fa = s if s < 1000 else -1

    class Probe(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1 = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU())
            self.layer2 = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
            self.fc = nn.Linear(8 * 36, 3)

        def forward(self, x):
            return self.fc(self.layer2(self.layer1(x)).flatten(1))

    net = Probe()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    proto = torch.randn(3, 1, 10, 10)
    features = {}

    def keep(module, inputs, output):
        features["mean"] = output.detach().mean()

    for step in range(80):
        handle = net.layer2.register_forward_hook(keep)
        y = torch.randint(3, (16,))
        loss = nn.functional.cross_entropy(net(proto[y] + 0.5 * torch.randn(16, 1, 10, 10)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fa < 0 or step < fa:
            handle.remove()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_hook_more_every_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
