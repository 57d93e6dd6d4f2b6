"""A training with the fault dataloader-bound; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)


def generator_reads_behind_a_lock(s):
    """No DataLoader: a generator function yields batches and from some step on waits for a disk."""
    fa = s if s < 1000 else -1
    truth_w = torch.randn(24, 2)

    def batches(n):
        for i in range(n):
            if 0 <= fa <= i:
                time.sleep(0.06)
            x = torch.randn(64, 24)
            yield x, (x @ truth_w).argmax(1)

    net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 2))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for x, y in batches(70):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    generator_reads_behind_a_lock(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
