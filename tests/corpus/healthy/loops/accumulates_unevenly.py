"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def accumulates_unevenly():
    ids = torch.randint(1, 30, (900, 10))
    ids = ids * (torch.arange(10) < torch.randint(3, 11, (900, 1)))
    model = nn.ModuleDict(
        {"e": nn.Embedding(30, 24, padding_idx=0), "r": nn.GRU(24, 32, batch_first=True), "o": nn.Linear(32, 30)}
    )
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(0, 50 * 16, 16):
        parts = ids[i : i + 16].split(4)
        tokens = sum((p[:, 1:] > 0).sum() for p in parts)
        opt.zero_grad()
        for part in parts:
            logits = model["o"](model["r"](model["e"](part[:, :-1]))[0])
            loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), ignore_index=0, reduction="sum")
            (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    accumulates_unevenly()
