"""A healthy training that looks odd."""

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def logs_all_norms_every_step():
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(8)], nn.Linear(64, 2)
    )
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(40):
        x = torch.randn(256, 64)
        y = (x[:, 0] > 0).long()
        logits = model(x)
        step(opt, loss := F.cross_entropy(logits, y))
        log = {n: p.grad.norm().item() for n, p in model.named_parameters()}
        log["loss"], log["accuracy"] = float(loss), (logits.argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    logs_all_norms_every_step()
