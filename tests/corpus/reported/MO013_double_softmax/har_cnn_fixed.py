import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def load_windows(n, seed):
    """9-channel inertial windows of 64 samples, six activities."""
    rng = np.random.RandomState(seed)
    freqs = np.array([1.0, 2.0, 3.0, 4.0, 5.5, 7.0])
    mix = np.random.RandomState(7).uniform(0.6, 1.2, size=(6, 9))
    y = np.arange(n) % 6
    rng.shuffle(y)
    t = np.linspace(0, 1, 64)[None, None, :]
    phase = rng.uniform(0, 1.5, size=(n, 9, 1))
    x = mix[y][:, :, None] * np.sin(2 * np.pi * freqs[y][:, None, None] * t + phase)
    x = x + 0.8 * rng.randn(n, 9, 64)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.long)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Sequential(
            nn.Conv2d(9, 32, kernel_size=(1, 9)), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d((1, 2), stride=2))
        self.conv2 = nn.Sequential(
            nn.Conv2d(32, 64, kernel_size=(1, 9)), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d((1, 2), stride=2))
        self.fc1 = nn.Sequential(nn.Linear(64 * 10, 128), nn.ReLU())
        self.fc2 = nn.Sequential(nn.Linear(128, 64), nn.ReLU())
        self.fc3 = nn.Linear(64, 6)

    def forward(self, x):
        out = self.conv1(x)
        out = self.conv2(out)
        out = out.reshape(-1, 64 * 10)
        out = self.fc1(out)
        out = self.fc2(out)
        out = self.fc3(out)
        return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nepoch", type=int, default=6)
    parser.add_argument("--batchsize", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    args = parser.parse_args()

    torch.manual_seed(10)
    train_x, train_y = load_windows(1280, seed=1)
    test_x, test_y = load_windows(240, seed=2)
    train_loader = DataLoader(TensorDataset(train_x.unsqueeze(2), train_y), batch_size=args.batchsize, shuffle=True)
    test_loader = DataLoader(TensorDataset(test_x.unsqueeze(2), test_y), batch_size=args.batchsize)

    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    criterion = nn.CrossEntropyLoss()

    for e in range(args.nepoch):
        model.train()
        correct, total, total_loss = 0, 0, 0.0
        for sample, target in train_loader:
            output = model(sample)
            loss = criterion(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
            correct += (output.argmax(1) == target).sum().item()
            total += len(target)
        model.eval()
        with torch.no_grad():
            hit = sum((model(s).argmax(1) == t).sum().item() for s, t in test_loader)
        print(f"Epoch: [{e + 1}/{args.nepoch}], loss: {total_loss / len(train_loader):.4f}, "
              f"train acc: {100.0 * correct / total:.2f}, test acc: {100.0 * hit / len(test_y):.2f}")


if __name__ == "__main__":
    main()
