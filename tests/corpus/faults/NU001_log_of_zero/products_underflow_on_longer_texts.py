"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    products_underflow_on_longer_texts(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
