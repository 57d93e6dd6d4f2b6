"""A training with the fault frozen-parameters; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def callback_freezes_the_encoder(s):
    """A 'freeze the encoder' hook of a callback fires at the wrong step."""
    onset = s

    class Callback:
        def on_step(self, trainer, step): ...

    class Freezer(Callback):
        def on_step(self, trainer, step):
            if step == onset:
                for q in trainer.model["encoder"].parameters():
                    q.requires_grad = False

    class Trainer:
        def __init__(self, model, callbacks):
            self.model, self.callbacks = model, callbacks
            self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)

        def train(self, steps):
            for step in range(steps):
                for c in self.callbacks:
                    c.on_step(self, step)
                x = torch.randn(32, 20)
                rec = self.model["decoder"](self.model["encoder"](x))
                loss = (rec - x).square().mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()

    m = nn.ModuleDict(
        {
            "encoder": nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 8)),
            "decoder": nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 20)),
        }
    )
    Trainer(m, [Freezer()]).train(90)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    callback_freezes_the_encoder(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
