"""A training with the fault exploding-activations; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Neighbours(nn.Module):
    """One layer of messages: what the neighbours say is averaged, or added up."""

    def __init__(self, width, mean):
        super().__init__()
        self.say, self.take, self.mean = nn.Linear(width, width), nn.Linear(width, width), mean

    def forward(self, h, links):
        heard = links @ self.say(h)
        return h + F.relu(self.take(heard / links.sum(1, keepdim=True) if self.mean else heard))


class Graph(nn.Module):
    """Six layers of messages between an encoder and a head."""

    def __init__(self, mean):
        super().__init__()
        self.enter, self.head = nn.Linear(12, 32), nn.Linear(32, 4)
        self.layers = nn.ModuleList(Neighbours(32, mean) for _ in range(6))

    def forward(self, x, links):
        h = self.enter(x)
        for layer in self.layers:
            h = layer(h, links)
        return self.head(h)


def messages_are_added_up(s):
    """Messages are not divided by the number of neighbours: from the beginning, or not at all."""
    model = Graph(mean=s > 0)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    centres = torch.randn(4, 12)
    for _ in range(150):
        labels = torch.randint(4, (120,))
        links = (torch.rand(120, 120) < torch.where(labels[:, None] == labels, 0.25, 0.03)).float() + torch.eye(120)
        loss = F.cross_entropy(model(0.5 * centres[labels] + torch.randn(120, 12), links), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    messages_are_added_up(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
