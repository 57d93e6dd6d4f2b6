"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def encoder_detached(s):
    """A sequence-to-sequence model hands the decoder a detached state."""

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(20, 32), nn.Embedding(20, 32)
            self.encoder = nn.GRU(32, 32, batch_first=True)
            self.decoder = nn.GRU(32, 32, batch_first=True)
            self.out = nn.Linear(32, 20)

        def forward(self, src, dst, cut):
            _, h = self.encoder(self.source(src))
            if cut:
                h = h.detach()
            return self.out(self.decoder(self.target(dst), h)[0])

    model = Translator()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(100):
        src = torch.randint(1, 20, (32, 6))
        dst = src.flip(1)
        start = torch.cat([torch.zeros(32, 1, dtype=torch.long), dst[:, :-1]], 1)
        out = model(src, start, step >= s)
        learn(model, opt, F.cross_entropy(out.flatten(0, 1), dst.flatten()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    encoder_detached(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
