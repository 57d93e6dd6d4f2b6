"""Train a small U-Net to segment plant roots in soil patches."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class RootPatches(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.images, self.masks = [], []
        for _ in range(n):
            mask = np.zeros((32, 32), np.float32)
            x = rng.uniform(6, 26)
            slope = rng.uniform(-0.4, 0.4)
            for row in range(32):
                x += slope + rng.normal(0, 0.3)
                c = int(np.clip(round(x), 1, 30))
                mask[row, c - 1:c + 2] = 1.0
            image = 0.5 * rng.randn(32, 32).astype(np.float32) + 1.2 * mask
            self.images.append(image - image.mean())
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return (torch.from_numpy(self.images[i])[None].float(),
                torch.from_numpy(self.masks[i])[None])


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(),
        nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU())


class UNetGN(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down1 = conv_block(1, width)
        self.down2 = conv_block(width, width * 2)
        self.up = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.merge = conv_block(width * 2, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        return self.out(self.merge(torch.cat([a, self.up(b)], 1)))


def f1_score(logits, mask):
    pred = (logits > 0).float()
    tp = (pred * mask).sum()
    return (2 * tp / (pred.sum() + mask.sum() + 1e-6)).item()


def evaluate(cnn, loader):
    cnn.eval()
    losses, scores = [], []
    with torch.no_grad():
        for image, mask in loader:
            out = cnn(image)
            losses.append(F.binary_cross_entropy_with_logits(out, mask).item())
            scores.append(f1_score(out, mask))
    return np.mean(losses), np.mean(scores)


def train_epoch(cnn, loader, optimizer):
    cnn.train()
    losses = []
    for image, mask in loader:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(cnn(image), mask)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.mean(losses)


def main():
    torch.manual_seed(2)
    train_loader = DataLoader(RootPatches(320, 0), batch_size=16, shuffle=True)
    val_loader = DataLoader(RootPatches(64, 1), batch_size=32)
    cnn = UNetGN()
    optimizer = torch.optim.SGD(cnn.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.6)
    for epoch in range(8):
        train_loss = train_epoch(cnn, train_loader, optimizer)
        val_loss, val_f1 = evaluate(cnn, val_loader)
        print(f"epoch {epoch} train {train_loss:.4f} val {val_loss:.4f} f1 {val_f1:.3f}")
        scheduler.step()


if __name__ == "__main__":
    main()
