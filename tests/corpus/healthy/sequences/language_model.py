"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

PROSE = """\
Healthy runs that look odd: `python odd.py NAME [SEED]`. Nothing is wrong with any of them."""


def language_model():
    ids = torch.tensor(list((PROSE * 60).encode()))
    model = nn.ModuleDict({"e": nn.Embedding(256, 32), "r": nn.LSTM(32, 64, batch_first=True), "o": nn.Linear(64, 256)})
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    for i in range(60):
        s = torch.stack([ids[(i * 97 + k * 31) % 4000 :][:33] for k in range(8)])
        h, _ = model["r"](model["e"](s[:, :-1]))
        loss = F.cross_entropy(model["o"](h).flatten(0, 1), s[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    language_model()
