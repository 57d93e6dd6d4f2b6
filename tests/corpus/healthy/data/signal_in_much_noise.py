"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def signal_in_much_noise():
    """Labels that hardly depend on the inputs: one hundredth of the entropy is all that can be learnt."""
    x = torch.randn(16000, 20)
    y = (torch.rand(16000) < torch.sigmoid(0.09 * x @ torch.randn(20))).long()
    net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 2))
    nn.init.zeros_(net[2].weight)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(3):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True):
            loss = F.cross_entropy(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    signal_in_much_noise()
