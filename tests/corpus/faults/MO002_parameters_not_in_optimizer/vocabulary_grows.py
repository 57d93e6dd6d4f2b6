"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import argparse
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def prose():
    """The documentation of some modules, as numbers."""
    words = "".join(
        m.__doc__ or "" for m in (argparse, random, math, argparse.ArgumentParser, random.Random, nn.Linear)
    )
    letters = sorted(set(words))
    return torch.tensor([letters.index(c) for c in words]), len(letters)


def excerpts(data, count, length):
    start = torch.randint(len(data) - length - 1, (count,)).tolist()
    return torch.stack([data[i : i + length] for i in start]), torch.stack(
        [data[i + 1 : i + 1 + length] for i in start]
    )


def vocabulary_grows(s):
    """New words are added to the embedding, in a new parameter of which the optimizer knows nothing."""
    data, vocab = prose()
    model = nn.Sequential(nn.Embedding(vocab, 24), nn.GRU(24, 40, batch_first=True))
    head = nn.Linear(40, vocab)
    opt = optim.Adam([*model.parameters(), *head.parameters()], lr=3e-3)
    for step in range(60):
        if step == s:
            larger = nn.Embedding(vocab + 10, 24)
            larger.weight.data[:vocab] = model[0].weight.data
            model[0] = larger
        x, y = excerpts(data, 8, 16)
        loss = F.cross_entropy(head(model(x)[0]).flatten(0, 1), y.flatten())
        opt.zero_grad()
        model.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    vocabulary_grows(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
