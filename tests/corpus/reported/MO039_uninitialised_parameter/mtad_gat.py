"""Multivariate time-series anomaly detection with feature and temporal graph attention (MTAD-GAT style)."""
import math

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1)
np.random.seed(1)

N_FEATURES, WINDOW, BATCH, EPOCHS = 25, 30, 64, 6


def load_machine(length=3500):
    t = np.arange(length)
    series = []
    for k in range(N_FEATURES):
        base = np.sin(2 * np.pi * t / (20 + 3 * k)) + 0.3 * np.sin(2 * np.pi * t / (7 + k))
        series.append(base + 0.1 * np.random.randn(length))
    x = np.stack(series, 1)
    x[:, 4] = 0.0
    x[:, 17] = 1.0
    return x.astype(np.float32)


def normalize_data(x):
    lo, hi = x.min(0), x.max(0)
    return (x - lo) / (hi - lo + 1e-6)


class SlidingWindowDataset(Dataset):
    def __init__(self, data, window):
        self.data = data
        self.window = window

    def __len__(self):
        return len(self.data) - self.window

    def __getitem__(self, i):
        return self.data[i:i + self.window], self.data[i + self.window]


class AttentionLayer(nn.Module):
    """Attention over `n_nodes` nodes with `dim` features each (GATv2 form)."""

    def __init__(self, n_nodes, dim, alpha=0.2, embed_dim=32, use_bias=True):
        super().__init__()
        self.n_nodes = n_nodes
        self.use_bias = use_bias
        self.lin = nn.Linear(2 * dim, embed_dim)
        self.a = nn.Parameter(torch.empty((embed_dim, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        if self.use_bias:
            self.bias = nn.Parameter(torch.empty(n_nodes, n_nodes))
        self.leakyrelu = nn.LeakyReLU(alpha)

    def _make_attention_input(self, v):
        k = self.n_nodes
        left = v.repeat_interleave(k, dim=1)
        right = v.repeat(1, k, 1)
        return torch.cat((left, right), dim=2).view(v.size(0), k, k, -1)

    def forward(self, v):
        a_input = self.leakyrelu(self.lin(self._make_attention_input(v)))
        e = torch.matmul(a_input, self.a).squeeze(3)
        if self.use_bias:
            e = e + self.bias
        attention = torch.softmax(e, dim=2)
        return torch.sigmoid(torch.matmul(attention, v))


class MTAD_GAT(nn.Module):
    def __init__(self, n_features, window, hid=64):
        super().__init__()
        self.conv = nn.Conv1d(n_features, n_features, 7, padding=3)
        self.feature_gat = AttentionLayer(n_features, window)
        self.temporal_gat = AttentionLayer(window, n_features)
        self.gru = nn.GRU(3 * n_features, hid, batch_first=True)
        self.forecast = nn.Sequential(nn.Linear(hid, hid), nn.ReLU(), nn.Linear(hid, n_features))
        self.decoder = nn.GRU(hid, hid, batch_first=True)
        self.recon = nn.Linear(hid, n_features)

    def forward(self, x):
        x = torch.relu(self.conv(x.permute(0, 2, 1))).permute(0, 2, 1)
        h_feat = self.feature_gat(x.permute(0, 2, 1)).permute(0, 2, 1)
        h_temp = self.temporal_gat(x)
        _, h = self.gru(torch.cat([x, h_feat, h_temp], dim=2))
        h = h[-1]
        out, _ = self.decoder(h.unsqueeze(1).expand(-1, x.shape[1], -1))
        return self.forecast(h), self.recon(out)


def describe(name, x):
    corr = torch.corrcoef(x.T)
    strong = (corr.abs() > 0.8).sum().item() - N_FEATURES
    gram = torch.corrcoef(x[:WINDOW])
    print(f"{name}: {tuple(x.shape)}, strongly correlated pairs {max(strong, 0) // 2}, "
          f"mean similarity of the first rows {gram.nanmean().item():.3f}")


def main():
    raw = torch.from_numpy(load_machine())
    data = torch.from_numpy(normalize_data(raw.numpy()))
    n_train = int(0.8 * len(data))
    describe("train", raw[:n_train])
    model = MTAD_GAT(N_FEATURES, WINDOW)
    train_loader = DataLoader(SlidingWindowDataset(data[:n_train], WINDOW), batch_size=BATCH, shuffle=True)
    val_loader = DataLoader(SlidingWindowDataset(data[n_train:], WINDOW), batch_size=256)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for epoch in range(EPOCHS):
        model.train()
        f_losses, r_losses = [], []
        for x, y in train_loader:
            preds, recons = model(x)
            forecast_loss = torch.sqrt(criterion(preds, y))
            recon_loss = torch.sqrt(criterion(recons, x))
            loss = forecast_loss + recon_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            f_losses.append(forecast_loss.item())
            r_losses.append(recon_loss.item())
        model.eval()
        with torch.no_grad():
            val = np.mean([(torch.sqrt(criterion(model(x)[0], y))).item() for x, y in val_loader])
        print(f"[Epoch {epoch + 1}] forecast_loss = {np.mean(f_losses):.5f}, recon_loss = {np.mean(r_losses):.5f}, "
              f"val_forecast_loss = {val:.5f}", flush=True)


if __name__ == "__main__":
    main()
