"""A training with the fault optimizer-state-lost; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def new_optimizer_every_phase(s):
    """New optimizer every phase."""
    fa = s if s < 1000 else -1

    class GraphNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin1, self.lin2 = nn.Linear(6, 24), nn.Linear(24, 24)
            self.read = nn.Linear(24, 2)

        def forward(self, adj, x):
            x = torch.relu(self.lin1(adj @ x))
            x = torch.relu(self.lin2(adj @ x))
            return self.read(x.mean(1))

    net = GraphNet()

    def make():
        return torch.optim.AdamW(net.parameters(), lr=2e-3)

    opt = make()
    for step in range(90):
        if step == fa:
            opt = make()  # "refresh the parameter list"
        dense = torch.randint(2, (24,))
        prob = torch.where(dense == 1, 0.5, 0.15).view(-1, 1, 1)
        adj = (torch.rand(24, 10, 10) < prob).float()
        adj = ((adj + adj.transpose(1, 2)) > 0).float() + torch.eye(10)
        adj = adj / 4
        loss = nn.functional.cross_entropy(net(adj, torch.ones(24, 10, 6)), dense)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    new_optimizer_every_phase(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
