"""Healthy runs of an opponent, eighth round, that look odd.

python odd_opponent_eight.py NAME [SEED]
"""

import random
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def lessons_of_longer_sequences():
    """A curriculum: sequences grow, batches shrink, the loss leaps at each lesson, and late on clipping is hard."""
    net, head = nn.LSTM(3, 40, batch_first=True), nn.Linear(40, 1)
    weights = [*net.parameters(), *head.parameters()]
    opt = torch.optim.Adam(weights, lr=5e-3)
    for length, rows in ((4, 64), (8, 48), (16, 32), (24, 16)):
        for _ in range(25):
            x = torch.randn(rows, length, 3)
            loss = nn.functional.mse_loss(head(net(x)[0][:, -1]), x[:, :, 0].sum(1, keepdim=True))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 1.0)
            opt.step()


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


def parity_is_learnt_late():
    """A recurrent classifier of two tokens' parity: nothing shows in the loss for the first hundreds of steps."""
    table, net, head = nn.Embedding(12, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 2)
    opt = torch.optim.Adam([p for part in (table, net, head) for p in part.parameters()], lr=5e-3)
    for _ in range(160):
        x = torch.randint(12, (24, 8))
        loss = nn.functional.cross_entropy(head(net(table(x))[0][:, -1]), (x[:, 0] + x[:, 3]) % 2)
        opt.zero_grad()
        loss.backward()
        opt.step()


def state_is_carried_from_chunk_to_chunk():
    """RMSprop on noisy targets, hidden state carried on: the first loss is low by chance, the first steps are long."""
    torch.manual_seed(4)
    net, head = nn.GRU(2, 32, batch_first=True), nn.Linear(32, 1)
    opt = torch.optim.RMSprop([*net.parameters(), *head.parameters()], lr=2e-3)
    state = None
    for _ in range(70):
        x = torch.stack([torch.randn(20, 12), (torch.rand(20, 12) < 0.3).float()], -1)
        y = (x[..., 0] * x[..., 1]).cumsum(1)[..., None] * 0.5
        out, state = net(x, state)
        loss = (head(out) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = state.detach()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
