"""A training with the fault host-sync-per-step; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def weights_summed_in_a_loop_from_s_on(s):
    net = nn.GRU(8, 24, batch_first=True)
    head = nn.Linear(24, 1)
    opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], 1e-3)
    for i in range(40):
        x = torch.randn(32, 12, 8)
        loss = F.mse_loss(head(net(x)[0][:, -1]), x.mean((1, 2)).unsqueeze(1))
        step(opt, loss)
        if i >= s:
            total = 0.0
            for w in net.weight_hh_l0.detach().reshape(-1):
                total += abs(w.item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    weights_summed_in_a_loop_from_s_on(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
