import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_ITEMS, MAX_HIS, DIM = 200, 10, 32


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d_k = n_heads, d_model // n_heads
        self.q_linear = nn.Linear(d_model, d_model, bias=False)
        self.k_linear = nn.Linear(d_model, d_model, bias=False)
        self.v_linear = nn.Linear(d_model, d_model, bias=False)

    def head_split(self, x):
        return x.view(x.shape[0], x.shape[1], self.h, self.d_k).transpose(1, 2)

    def forward(self, q, k, v, mask):
        q, k, v = (self.head_split(f(t)) for f, t in
                   ((self.q_linear, q), (self.k_linear, k), (self.v_linear, v)))
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k ** 0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -np.inf)
        scores = scores.softmax(dim=-1)
        scores = scores.masked_fill(torch.isnan(scores), 0)
        out = torch.matmul(scores, v)
        return out.transpose(1, 2).reshape(out.shape[0], -1, self.h * self.d_k)


class HistoryModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.i_embeddings = nn.Embedding(N_ITEMS + 1, DIM)
        nn.init.normal_(self.i_embeddings.weight, std=0.3)
        self.attn = MultiHeadAttention(DIM, 2)
        self.layer_norm = nn.LayerNorm(DIM)
        self.ffn = nn.Sequential(nn.Linear(2 * DIM, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, history, lengths, target):
        mask = torch.arange(MAX_HIS)[None] < lengths[:, None]
        his, tgt = self.i_embeddings(history), self.i_embeddings(target)
        ctx = self.attn(tgt.unsqueeze(1), his, his, mask).squeeze(1)
        return self.ffn(torch.cat([self.layer_norm(ctx + tgt), tgt], -1)).squeeze(-1)


class Interactions(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.history = np.zeros((n, MAX_HIS), np.int64)
        self.lengths = rng.integers(3, MAX_HIS + 1, n)
        self.lengths[rng.random(n) < 0.01] = 0
        taste = rng.integers(0, 4, n)
        for i in range(n):
            self.history[i, :self.lengths[i]] = 1 + taste[i] * 50 + rng.integers(0, 50, self.lengths[i])
        self.target = 1 + rng.integers(0, N_ITEMS, n)
        same = rng.random(n) < 0.4
        self.target[same] = 1 + taste[same] * 50 + rng.integers(0, 50, same.sum())
        self.label = ((self.target - 1) // 50 == taste).astype(np.float32)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.history[i], self.lengths[i], self.target[i], self.label[i]


def fit(model, train, dev, epochs=8):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        model.train()
        losses = []
        for history, lengths, target, label in train:
            loss = F.binary_cross_entropy_with_logits(model(history, lengths, target), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            dev_loss = np.mean([F.binary_cross_entropy_with_logits(model(h, n, t), y).item() for h, n, t, y in dev])
        print(f"Epoch {epoch + 1:<3} loss={np.mean(losses):.4f} dev={dev_loss:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(Interactions(3072, 1), batch_size=64, shuffle=True)
    dev = DataLoader(Interactions(512, 2), batch_size=128)
    fit(HistoryModel(), train, dev)
