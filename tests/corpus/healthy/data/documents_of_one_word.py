"""A healthy training that looks odd; argument: [SEED]."""

import random
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def documents_of_one_word():
    """Documents of all lengths, one at a time, some of which repeat one token; steps are made by a budget of tokens."""
    random.seed(8)
    table, net, head = nn.Embedding(23, 24), nn.GRU(24, 48), nn.Linear(48, 23)
    weights = [p for part in (table, net, head) for p in part.parameters()]
    opt = torch.optim.AdamW(weights, lr=6e-3)
    tokens = 0
    for _ in range(400):
        k = random.randrange(5)
        text = torch.tensor([(k * i + 1) % 23 for i in range(int(3 + random.expovariate(1 / 12)))])
        logits = head(net(table(text[:-1, None]))[0]).squeeze(1)
        (nn.functional.cross_entropy(logits, text[1:], reduction="sum") / 100).backward()
        tokens += len(text) - 1
        if tokens >= 100:
            nn.utils.clip_grad_norm_(weights, 1.0)
            opt.step()
            opt.zero_grad()
            tokens = 0


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    documents_of_one_word()
