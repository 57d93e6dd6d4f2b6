"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import contextlib
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def no_grad_left_round_the_encoder_layer(s):
    """The feature extractor sits in a no_grad block left over from fine-tuning, though its weights are to be trained."""
    wrong = s == 0

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(10, 48)
            self.layer = nn.TransformerEncoderLayer(48, 4, 96, 0.1, batch_first=True)
            self.head = nn.Linear(48, 4)

        def forward(self, x):
            with torch.no_grad() if wrong else contextlib.nullcontext():
                h = self.layer(self.embed(x))
            return self.head(h.mean(1))

    m = Model()
    opt = torch.optim.AdamW(m.parameters(), 1e-3)
    for _i in range(70):
        x = torch.randn(16, 6, 10)
        y = x.mean(1)[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(m(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    no_grad_left_round_the_encoder_layer(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
