"""Forecasting of a seasonal series with an LSTM: windows, scaled by the training part, Huber loss, several steps ahead."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
rng = np.random.default_rng(0)
time = np.arange(900)
series = (
    10 + 0.01 * time + 3 * np.sin(2 * np.pi * time / 24) + np.sin(2 * np.pi * time / 7) + 0.3 * rng.normal(size=900)
)
mean, std = series[:700].mean(), series[:700].std()
scaled = ((series - mean) / std).astype(np.float32)


class Windows(Dataset):
    def __init__(self, values, lookback=36, horizon=6):
        self.values, self.lookback, self.horizon = torch.from_numpy(values), lookback, horizon

    def __len__(self):
        return len(self.values) - self.lookback - self.horizon + 1

    def __getitem__(self, i):
        middle = i + self.lookback
        return self.values[i:middle, None], self.values[middle : middle + self.horizon]


class Forecaster(nn.Module):
    def __init__(self, hidden=32, horizon=6):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.linear = nn.Linear(hidden, horizon)

    def forward(self, x):
        output, _ = self.lstm(x)
        return x[:, -1] + self.linear(output[:, -1])


train_loader = DataLoader(Windows(scaled[:700]), batch_size=32, shuffle=True)
test_loader = DataLoader(Windows(scaled[700:]), batch_size=64)
model = Forecaster()
loss_fn = nn.HuberLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
for epoch in range(5):
    model.train()
    total = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        errors = torch.cat([(model(x) - y).abs().mean(1) for x, y in test_loader])
    print(f"epoch {epoch} train {total / len(train_loader)!r} test MAE {errors.mean().item() * std!r}")
