"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def knowledge_distillation():
    x, y = blobs(800)
    teacher, student = net(hidden=96), net(hidden=12)
    opt = torch.optim.Adam(teacher.parameters(), 3e-3)
    for i in range(60):
        s = slice(i * 32 % 800, i * 32 % 800 + 32)
        step(opt, F.cross_entropy(teacher(x[s]), y[s]))
    teacher.eval().requires_grad_(False)
    opt = torch.optim.Adam(student.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 32 % 800, i * 32 % 800 + 32)
        with torch.no_grad():
            soft = F.softmax(teacher(x[s]) / 4, 1)
        logits = student(x[s])
        loss = 16 * F.kl_div(F.log_softmax(logits / 4, 1), soft, reduction="batchmean") + F.cross_entropy(logits, y[s])
        step(opt, loss)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    knowledge_distillation()
