"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def speech_alignment():
    model = nn.ModuleDict({"rnn": nn.GRU(8, 32, batch_first=True, bidirectional=True), "out": nn.Linear(64, 6)})
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    patterns = torch.randn(6, 8)
    for _ in range(60):
        labels = torch.randint(1, 6, (8, 4))
        x = patterns[labels].repeat_interleave(4, 1) + 0.3 * torch.randn(8, 16, 8)
        logp = F.log_softmax(model["out"](model["rnn"](x)[0]), -1).transpose(0, 1)
        step(opt, F.ctc_loss(logp, labels, torch.full((8,), 16), torch.full((8,), 4)), 5.0)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    speech_alignment()
