"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def rates_tried_in_turn():
    """Learning-rate finder, then the state is put back and real training begins."""
    net = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 4))
    truth_w = torch.randn(12, 4)

    def batch():
        x = torch.randn(64, 12)
        return x, (x @ truth_w).argmax(1)

    start = copy.deepcopy(net.state_dict())
    probe = torch.optim.SGD(net.parameters(), lr=1e-4)
    rates, losses = [], []
    for i in range(50):
        lr = 1e-4 * (2.0 / 1e-4) ** (i / 49)
        probe.param_groups[0]["lr"] = lr
        x, y = batch()
        loss = nn.functional.cross_entropy(net(x), y)
        probe.zero_grad()
        loss.backward()
        probe.step()
        rates.append(lr)
        losses.append(loss.item())
    net.load_state_dict(start)
    best = rates[losses.index(min(losses))] / 10
    opt = torch.optim.SGD(net.parameters(), lr=best, momentum=0.9)
    for _ in range(90):
        x, y = batch()
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rates_tried_in_turn()
