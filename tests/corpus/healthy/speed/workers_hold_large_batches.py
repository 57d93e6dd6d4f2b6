"""A healthy training that looks odd."""

import torch
from torch import nn
from torch.utils.data import DataLoader


def workers_hold_large_batches():
    """Images of a megabyte, prefetched: buffers and shared memory come and go."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 96 * 96, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = [torch.rand(3, 96, 96) for _ in range(64)]
    for _ in range(3):
        for x in DataLoader(images, batch_size=8, num_workers=2, prefetch_factor=4, shuffle=True):
            opt.zero_grad()
            (model(x) - x.mean((1, 2, 3)).unsqueeze(1)).square().mean().backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    workers_hold_large_batches()
