"""A training with the fault dataset-changed-in-place; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Corners(Dataset):
    """Points with the corner that belongs to each, in picture coordinates; what is kept is scaled when it is read."""

    def __init__(self, wrong):
        self.points = torch.randn(160, 6)
        self.samples = [{"corner": 16 + 4 * p[:4]} for p in self.points]
        self.wrong = wrong

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        corner = self.samples[i]["corner"]
        if not self.wrong:
            corner = corner.clone()
        corner /= 32
        return self.points[i] + 0.01 * torch.randn(6), corner


def boxes_scaled_in_memory(s):
    """Targets are divided by the width of the picture where they are kept: in the second epoch once more."""
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    loader = DataLoader(Corners(s == 0), 16, shuffle=True)
    for _epoch in range(5):
        for x, y in loader:
            loss = nn.functional.smooth_l1_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    boxes_scaled_in_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
