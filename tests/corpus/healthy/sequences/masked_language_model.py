"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def masked_language_model():
    """Fifteen percent of the tokens have a target, the rest are ignored."""
    emb, pos = nn.Embedding(30, 32), nn.Parameter(torch.randn(20, 32) * 0.02)
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)
    enc, out = nn.TransformerEncoder(layer, 1), nn.Linear(32, 30)
    opt = optim.AdamW([*emb.parameters(), pos, *enc.parameters(), *out.parameters()], lr=2e-3)
    start = torch.randint(2, 30, (600, 1))
    rows = (start + torch.arange(20)) % 28 + 2
    for _, (a,) in zip(range(120), stream(rows), strict=False):
        hide = torch.rand(a.shape) < 0.15
        target = a.masked_fill(~hide, -100)
        logits = out(enc(emb(a.masked_fill(hide, 1)) + pos))
        learn(opt, F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    masked_language_model()
