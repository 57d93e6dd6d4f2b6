"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

PROSE = """\
Healthy runs with several heads, stages or models: `python odd_stages.py NAME [SEED]`. Nothing is wrong with any of them."""


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def truncated_backpropagation():
    text = torch.tensor(list((PROSE * 40).encode())) % 64
    streams = text[: len(text) // 8 * 8].view(8, -1)
    embed, rnn, head = nn.Embedding(64, 24), nn.LSTM(24, 48, 2, batch_first=True, dropout=0.1), nn.Linear(48, 64)
    params = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, 2.0)
    state = None
    for k in range(0, streams.shape[1] - 13, 12):
        out, state = rnn(embed(streams[:, k : k + 12]), state)
        state = tuple(s.detach() for s in state)
        step(opt, F.cross_entropy(head(out).flatten(0, 1), streams[:, k + 1 : k + 13].flatten()), 0.25)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    truncated_backpropagation()
