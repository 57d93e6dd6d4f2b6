"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Average:
    """A moving average of the model that it was given."""

    def __init__(self, model, keep):
        self.model, self.keep = model, keep
        self.shadow = copy.deepcopy(model).requires_grad_(requires_grad=False)

    @torch.no_grad()
    def update(self):
        for mine, theirs in zip(self.shadow.parameters(), self.model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.keep)


def average_of_the_model_before(s):
    """At s the model is built anew with the same weights for another stage; its average goes on with the object of before."""

    def build():
        return nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 5))

    model = build()
    average = Average(model, 0.98)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    turn = torch.randn(16, 5)
    for i in range(240):
        if i == s:
            weights = model.state_dict()
            model = build()
            model.load_state_dict(weights)
            opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
        x = torch.randn(48, 16)
        loss = F.cross_entropy(model(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        average.update()
        if i % 40 == 39:
            with torch.no_grad():
                seen = torch.randn(200, 16)
                print(i, float((average.shadow(seen).argmax(1) == (seen @ turn).argmax(1)).float().mean()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    average_of_the_model_before(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
