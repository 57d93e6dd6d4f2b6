"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Digits(Dataset):
    """Eight by eight drawings of ten classes, moved and with noise, as grey values 0 to 16."""

    def __init__(self, n=960, scale=True, seed=7):
        g = torch.Generator().manual_seed(seed)
        base = (torch.rand(10, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.5).float() * 14
        self.targets = torch.randint(10, (n,), generator=g)
        self.images = torch.zeros(n, 1, 8, 8)
        for i, k in enumerate(self.targets.tolist()):
            dy, dx = torch.randint(3, (2,), generator=g).tolist()
            self.images[i, 0, dy : dy + 6, dx : dx + 6] = base[k]
        self.images += torch.rand(self.images.shape, generator=g) * 2
        if scale:
            self.images = (self.images - 6) / 6

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


def steps_of(loader, count):
    done = 0
    while done < count:
        for batch in loader:
            yield done, batch
            done += 1
            if done == count:
                return


def camera_turns_black(s):
    """From some step on every picture of a small U-Net is black."""

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU())
            self.deep = nn.Sequential(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU())
            self.up = nn.ConvTranspose2d(24, 12, 2, stride=2)
            self.out = nn.Conv2d(24, 1, 1)

        def forward(self, x):
            a = self.down(x)
            return self.out(torch.cat([a, self.up(self.deep(F.max_pool2d(a, 2)))], 1))

    model = UNet()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step, (a, _) in steps_of(DataLoader(Digits(), 24, shuffle=True), 80):
        mask = (a > 0.5).float()
        if step >= s:
            a = torch.zeros_like(a)
        loss = F.binary_cross_entropy_with_logits(model(a), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    camera_turns_black(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
