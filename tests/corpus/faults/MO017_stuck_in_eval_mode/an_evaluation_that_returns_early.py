"""A training with the fault stuck-in-eval-mode; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def an_evaluation_that_returns_early(s):
    """A student learns from a teacher; the evaluation every 20 steps returns before train() where it saw a better result, which
    it does not before s and sometimes does from s on."""
    teacher = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 6)).eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(20, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 6))
    opt = torch.optim.AdamW(student.parameters(), lr=2e-3)
    held_out = torch.randn(256, 20)

    def evaluate(better):
        student.eval()
        with torch.no_grad():
            right = student(held_out).argmax(1) == teacher(held_out).argmax(1)
        if better:
            return right
        student.train()
        return right

    for i in range(160):
        if i % 20 == 0 and i > 0:
            evaluate(i >= s and i // 20 % 3 != 1)
        x = torch.randn(64, 20)
        with torch.no_grad():
            t = teacher(x)
        loss = F.kl_div(student(x).log_softmax(-1), t.log_softmax(-1), log_target=True, reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    an_evaluation_that_returns_early(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
