import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ECG(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        t = np.arange(256)
        self.x = np.zeros((n, 1, 256), np.float32)
        self.y = np.zeros((n, 1, 256), np.float32)
        for i in range(n):
            pos = rng.randint(10, 40)
            while pos < 250:
                self.x[i, 0] += 2.5 * np.exp(-(t - pos) ** 2 / 6.0) - 0.6 * np.exp(-(t - pos - 6) ** 2 / 12.0)
                self.y[i, 0] += np.exp(-(t - pos) ** 2 / 40.0)
                pos += rng.randint(40, 70)
            self.x[i, 0] += 0.4 * np.sin(t / 30.0 + rng.uniform(0, 6)) + 0.2 * rng.randn(256)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i])


class GatedInception(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.branches = nn.ModuleList([nn.Conv1d(cin, cout // 2, k, padding=k // 2) for k in (5, 15)])
        self.gate = nn.Conv1d(cin, cout, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        h = torch.cat([b(x) for b in self.branches], 1)
        g = torch.sigmoid(self.gate(x))
        out = h * g
        return self.relu(h) + out


class IncResNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.enc1 = GatedInception(1, c)
        self.bn1 = nn.BatchNorm1d(c)
        self.enc2 = GatedInception(c, 2 * c)
        self.bn2 = nn.BatchNorm1d(2 * c)
        self.up = nn.ConvTranspose1d(2 * c, c, 2, stride=2)
        self.dec = GatedInception(2 * c, c)
        self.head = nn.Conv1d(c, 1, 1)
        self.pool = nn.MaxPool1d(2)

    def forward(self, x):
        a = self.bn1(self.enc1(x))
        b = self.bn2(self.enc2(self.pool(a)))
        return self.head(self.dec(torch.cat([a, self.up(b)], 1)))


def main():
    np.random.seed(0)
    torch.manual_seed(0)
    train_loader = DataLoader(ECG(384, 1), batch_size=16, shuffle=True)
    val_loader = DataLoader(ECG(96, 2), batch_size=32)
    model = IncResNet()
    criterion = nn.SmoothL1Loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(6):
        model.train()
        running = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        model.eval()
        with torch.no_grad():
            val = np.mean([criterion(model(x), y).item() for x, y in val_loader])
        print(f"Epoch {epoch}: train {running / len(train_loader):.5f} val {val:.5f}")


if __name__ == "__main__":
    main()
