"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class GraphLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.neighbours = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, edges):
        messages = self.neighbours(x)[edges[0]]
        degree = torch.zeros(len(x)).index_add(0, edges[1], torch.ones(edges.shape[1])).clamp(min=1)
        return self.own(x) + torch.zeros(len(x), messages.shape[1]).index_add(0, edges[1], messages) / degree[:, None]


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphLayer(8, 32), GraphLayer(32, 3)

    def forward(self, x, edges):
        return self.second(F.dropout(F.relu(self.first(x, edges)), 0.5, self.training), edges)


def graph_nodes():
    y = torch.randint(3, (200,))
    x = F.one_hot(y, 8).float() + torch.randn(200, 8)
    edges = torch.randint(200, (2, 1500))
    edges = edges[:, (y[edges[0]] == y[edges[1]]) | (torch.rand(1500) < 0.2)]
    train = torch.rand(200) < 0.3
    model = GraphNet()
    opt = torch.optim.Adam(model.parameters(), 1e-2, weight_decay=5e-4)
    for _ in range(100):
        model.train()
        step(opt, F.cross_entropy(model(x, edges)[train], y[train]))
        model.eval()
        with torch.no_grad():
            (model(x, edges)[~train].argmax(1) == y[~train]).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    graph_nodes()
