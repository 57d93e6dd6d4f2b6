"""A training with the fault lr-spike; arguments: [ONSET] [SEED]."""

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


def wrong_factor_in_schedule(s):
    """A table of learning rates with a slip of the keyboard in one entry."""
    data, vocab = text()
    model = LanguageModel(vocab, cell=nn.GRU)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.LambdaLR(opt, lambda e: 60.0 if e == s else 0.99**e)
    for _ in range(110):
        x, y = windows(data, 6, 16)
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    wrong_factor_in_schedule(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
