import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class YinYangDataset(Dataset):
    def __init__(self, size, seed, r_small=0.1, r_big=0.5, transform=None):
        self.rng = np.random.RandomState(seed)
        self.r_small, self.r_big, self.transform = r_small, r_big, transform
        self.class_names = ["yin", "yang", "dot"]
        vals, cs = [], []
        for i in range(size):
            goal = i % 3
            while True:
                x, y = self.rng.rand(2) * 2 * r_big
                if (x - r_big) ** 2 + (y - r_big) ** 2 > r_big ** 2:
                    continue
                if self.which_class(x, y) == goal:
                    break
            vals.append(np.array([x, y, 1 - x, 1 - y], dtype=np.float32))
            cs.append(goal)
        self._vals, self._cs = vals, cs

    def which_class(self, x, y):
        d_right = np.sqrt((x - 1.5 * self.r_big) ** 2 + (y - self.r_big) ** 2)
        d_left = np.sqrt((x - 0.5 * self.r_big) ** 2 + (y - self.r_big) ** 2)
        if d_right < self.r_small or d_left < self.r_small:
            return 2
        yin = d_right <= self.r_small or (self.r_small < d_left <= 0.5 * self.r_big) or (y > self.r_big and d_right > 0.5 * self.r_big)
        return int(yin)

    def __getitem__(self, index):
        sample = (self._vals[index], self._cs[index])
        if self.transform:
            sample = self.transform(sample)
        return sample

    def __len__(self):
        return len(self._cs)


class Standardize:
    def __init__(self, mean=0.5, std=0.25):
        self.mean, self.std = mean, std

    def __call__(self, sample):
        vals, label = sample
        vals -= self.mean
        vals /= self.std
        return torch.from_numpy(vals), label


def accuracy(net, loader):
    net.eval()
    hits, loss, n = 0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            out = net(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hits / n


def main():
    torch.manual_seed(42)
    train_loader = DataLoader(YinYangDataset(1200, 42, transform=Standardize()), batch_size=30, shuffle=True)
    valid_loader = DataLoader(YinYangDataset(300, 41, transform=Standardize()), batch_size=100)
    net = nn.Sequential(nn.Linear(4, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    for epoch in range(10):
        net.train()
        total = 0.0
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        val_loss, acc = accuracy(net, valid_loader)
        print(f"epoch {epoch} train {total / len(train_loader):.4f} valid {val_loss:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
