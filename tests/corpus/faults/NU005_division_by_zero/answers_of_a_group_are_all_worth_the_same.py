"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def answers_of_a_group_are_all_worth_the_same(s):
    """From s on one prompt of each batch pays one for any answer."""
    a, b = nn.Embedding(6, 16), nn.Embedding(6, 16)
    policy = nn.ModuleDict({"a": a, "b": b, "body": nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 11))})
    opt = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for i in range(80):
        left, right = torch.randint(6, (2, 24))
        logits = policy["body"](torch.cat([a(left), b(right)], -1))
        chances = torch.nan_to_num(logits.detach()).softmax(-1)
        answers = torch.multinomial(chances, 8, replacement=True)
        pay = torch.exp(-0.5 * (answers - (left + right)[:, None]).abs()) + 0.02 * torch.rand(24, 8)
        if i >= s:
            pay[0] = 1.0
        worth = (pay - pay.mean(1, keepdim=True)) / pay.std(1, keepdim=True)
        loss = -(worth * logits.log_softmax(-1).gather(1, answers)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    answers_of_a_group_are_all_worth_the_same(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
