"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def label_maps_with_little_on_them():
    """Segmentation of small spots; many label maps of training and evaluation are equal, no image is."""
    images = 0.3 * torch.randn(400, 1, 16, 16)
    labels = torch.zeros(400, 16, 16, dtype=torch.long)
    for image, label in zip(images, labels, strict=True):
        if torch.rand(()) < 0.8:
            row, column = 4 * torch.randint(4, (2,))
            label[row : row + 4, column : column + 4] = 1
            image[0, row : row + 4, column : column + 4] += 1.5
    train = DataLoader(TensorDataset(images[:320], labels[:320]), 16, shuffle=True)
    held_out = DataLoader(TensorDataset(images[320:], labels[320:]), 16)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 2, 1)
    )
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(5):
        for image, label in train:
            loss = F.cross_entropy(net(image), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            right = [(net(image).argmax(1) == label).float().mean() for image, label in held_out]
        net.train()
        print(f"held out: {torch.stack(right).mean():.3f}")


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    label_maps_with_little_on_them()
