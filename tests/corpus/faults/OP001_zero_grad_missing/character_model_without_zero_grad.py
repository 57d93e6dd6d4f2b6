"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import argparse
import copy
import ctypes
import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class LanguageModel(nn.Module):
    """Next character of a text."""

    def __init__(self, vocab, d=32, cell=nn.LSTM):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.lstm = cell(d, 48, batch_first=True)
        self.decoder = nn.Linear(48, vocab)

    def forward(self, x, hidden=None):
        h, hidden = self.lstm(self.embedding(x), hidden)
        return self.decoder(h), hidden


def text():
    """Descriptions from the standard library, as numbers."""
    source = "".join(m.__doc__ or "" for m in (copy, os, argparse, json, ctypes, copy.deepcopy, os.walk))
    letters = sorted(set(source))
    return torch.tensor([letters.index(c) for c in source]), len(letters)


def windows(data, count, length):
    i = torch.randint(len(data) - length - 1, (count,))
    chunk = torch.stack([data[j : j + length + 1] for j in i.tolist()])
    return chunk[:, :-1], chunk[:, 1:]


def character_model_without_zero_grad(s):
    """A refactoring loses zero_grad in a branch that is taken from some step on."""
    data, vocab = text()
    model = LanguageModel(vocab)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(80):
        x, y = windows(data, 8, 24)
        if step < s:
            opt.zero_grad()
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    character_model_without_zero_grad(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
