"""A training with the fault lr-too-low; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def plateau_of_a_loss_in_mode_max(s):
    """A scheduler on the validation loss that waits for it to rise, from epoch s // 20 on."""
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max" if s < 200 else "min", patience=1)
    turn = torch.randn(20, 6)
    held = torch.randn(256, 20)
    for i in range(240):
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            net.eval()
            with torch.no_grad():
                plateau.step(F.cross_entropy(net(held), (held @ turn).argmax(1)))
            net.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    plateau_of_a_loss_in_mode_max(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
