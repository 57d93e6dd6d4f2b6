"""A training with the fault optimizer-state-lost; arguments: [ONSET] [SEED]."""

import io
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def checkpoint_without_moments(s):
    """Checkpoint without moments."""
    fa = s if s < 1000 else -1

    class Keypoints(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 8, 3, 2, 1),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, 2, 1),
                nn.BatchNorm2d(16),
                nn.ReLU(),
            )
            self.regress = nn.Linear(16 * 9, 2)

        def forward(self, x):
            return self.regress(self.features(x).flatten(1))

    def spots(n):
        centre = torch.rand(n, 2) * 8 + 2
        g = torch.arange(12.0)
        d = (g.view(1, 12, 1) - centre[:, 0].view(-1, 1, 1)) ** 2 + (
            g.view(1, 1, 12) - centre[:, 1].view(-1, 1, 1)
        ) ** 2
        return torch.exp(-d / 4).unsqueeze(1), (centre - 6) / 4

    model = Keypoints()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    boundary = fa if fa > 0 else 38
    for step in range(80):
        if step == boundary:
            buf = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buf)
            buf.seek(0)
            ckpt = torch.load(buf)
            model = Keypoints()
            model.load_state_dict(ckpt["model"])
            optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
            if fa < 0:
                optimizer.load_state_dict(ckpt["optimizer"])
        x, y = spots(16)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    checkpoint_without_moments(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
