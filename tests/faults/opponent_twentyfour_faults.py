"""Training scripts after an opponent's, twenty-fourth round: scales that go wrong where no standard layer shows it, labels
of other samples under layers of norms, and a likelihood by products.

    python opponent_twentyfour_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import itertools
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Mixer(nn.Module):
    """Blocks of two norms each, whose scales of one outweigh all other weights."""

    def __init__(self, tokens=8, width=32):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.mix = nn.ModuleList(nn.Linear(tokens, tokens) for _ in range(2))
        self.wide = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.head = nn.Linear(width, 6)

    def forward(self, x):
        for i in range(2):
            x = x + F.gelu(self.mix[i](self.norms[2 * i](x).transpose(1, 2))).transpose(1, 2)
            x = x + F.gelu(self.wide[i](self.norms[2 * i + 1](x)))
        return self.head(x.mean(1))


def pictures_joined_by_their_place(s):
    """File names sort as texts, the table of classes by number: from the beginning, or not at all."""
    labels = torch.randint(6, (4000,))
    x = torch.randn(4000, 8, 32) + 0.7 * torch.randn(6, 8, 32)[labels]
    names = sorted(range(4000), key=str) if s == 0 else range(4000)
    x = x[list(names)]
    model = Mixer()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for i in range(240):
        if i % 62 == 0:
            order = torch.randperm(4000)
        rows = order[i % 62 * 64 : i % 62 * 64 + 64]
        loss = F.cross_entropy(model(x[rows]), labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


class Chain(nn.Module):
    """A hidden Markov chain whose tables are made by small networks."""

    def __init__(self, states=12, symbols=20):
        super().__init__()
        self.state = nn.Parameter(torch.randn(states, 16))
        self.move, self.say = nn.Linear(16, states), nn.Linear(16, symbols)

    def cost(self, ids, logarithms):
        move, say = self.move(self.state).log_softmax(1), self.say(self.state).log_softmax(1)
        if logarithms:
            alpha = say[:, ids[:, 0]].T - math.log(12)
            for t in range(1, ids.shape[1]):
                alpha = torch.logsumexp(alpha[:, :, None] + move, 1) + say[:, ids[:, t]].T
            return -torch.logsumexp(alpha, 1).mean() / ids.shape[1]
        alpha = say.exp()[:, ids[:, 0]].T / 12
        for t in range(1, ids.shape[1]):
            alpha = (alpha @ move.exp()) * say.exp()[:, ids[:, t]].T
        return -(alpha.sum(1).log() / ids.shape[1]).mean()


def products_underflow_on_longer_texts(s):
    """From step s on texts are thirteen times as long; probabilities are multiplied rather than logarithms added."""
    last = 160
    model = Chain()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for i in range(last):
        start = torch.randint(20, (32, 1))
        ids = (start + 3 * torch.arange(130 if i >= min(s, 100) else 10) + torch.randint(2, (32, 1))) % 20
        loss = model.cost(ids, logarithms=s >= last)
        opt.zero_grad()
        loss.backward()
        opt.step()


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


class Matrix(nn.Module):
    """A layer of the script's own."""

    def __init__(self, ins, outs, scale):
        super().__init__()
        self.w = nn.Parameter(torch.randn(ins, outs) * scale)
        self.b = nn.Parameter(torch.zeros(outs))

    def forward(self, x):
        return x @ self.w + self.b


def matrices_of_width_one(s):
    """The matrices are drawn with a standard deviation of one: from the beginning, or not at all."""
    sizes = [24, 64, 64, 3]
    layers = [Matrix(a, b, 1.0 if s == 0 else a**-0.5) for a, b in itertools.pairwise(sizes)]
    model = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    turn = torch.randn(24, 3) / 5
    for _ in range(200):
        x = torch.randn(64, 24)
        loss = (model(x) - (x @ turn).tanh()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0)
