"""Multi-label findings from a chest image and its report, trained with a warm-up cosine schedule."""
import math

import numpy as np
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

FINDINGS = 6
VOCAB = 60


class WarmupCosineSchedule(LambdaLR):
    """Linear warm-up followed by a cosine decay to zero."""

    def __init__(self, optimizer, warmup_steps, t_total, cycles=0.5, warmup_multiplier=0.0, last_epoch=-1):
        self.warmup_steps = warmup_steps
        self.warmup_multiplier = warmup_multiplier
        self.t_total = t_total
        self.cycles = cycles
        super().__init__(optimizer, self.lr_lambda, last_epoch)

    def lr_lambda(self, step):
        if step < self.warmup_steps:
            fraction = float(step) / float(max(1, self.warmup_steps))
            return self.warmup_multiplier + (1 - self.warmup_multiplier) * fraction
        progress = float(step - self.warmup_steps) / float(max(1, self.t_total - self.warmup_steps))
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * self.cycles * 2.0 * progress)))


class StudyDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.target = (rng.random((n, FINDINGS)) < 0.4).astype(np.float32)
        grid = np.zeros((FINDINGS, 16, 16), np.float32)
        for k in range(FINDINGS):
            row, col = divmod(k, 3)
            grid[k, 1 + 8 * row:6 + 8 * row, 5 * col:5 * col + 5] = 2.0
        image = np.einsum("nk,khw->nhw", self.target * (rng.random((n, FINDINGS)) < 0.8), grid)
        self.image = (image + rng.normal(0, 0.7, image.shape) - 0.4).astype(np.float32)[:, None]
        self.tokens = rng.integers(20, VOCAB, (n, 12))
        for i in range(n):
            for k in np.flatnonzero(self.target[i]):
                if rng.random() < 0.7:
                    self.tokens[i, rng.integers(0, 12)] = 1 + 3 * k + rng.integers(0, 3)

    def __len__(self):
        return len(self.target)

    def __getitem__(self, i):
        return {"image": torch.from_numpy(self.image[i]),
                "text": torch.from_numpy(self.tokens[i]),
                "label": torch.from_numpy(self.target[i])}


class Transchex(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 4, stride=4)
        self.words = nn.Embedding(VOCAB, dim)
        self.position = nn.Parameter(0.02 * torch.randn(1, 16 + 12, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.mixer = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, FINDINGS))

    def forward(self, image, text):
        patches = self.patch(image).flatten(2).transpose(1, 2)
        tokens = torch.cat([patches, self.words(text)], 1) + self.position
        return self.head(self.mixer(tokens).mean(1))


def main():
    torch.manual_seed(30)
    max_epochs = 10
    train_loader = DataLoader(StudyDataset(800, 0), batch_size=40, shuffle=True)
    val_loader = DataLoader(StudyDataset(200, 1), batch_size=100)
    model = Transchex()
    loss_bce = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-5)
    scheduler = WarmupCosineSchedule(optimizer, warmup_steps=2, t_total=max_epochs)

    for epoch in range(max_epochs):
        model.train()
        epoch_loss = 0.0
        for batch in train_loader:
            optimizer.zero_grad()
            loss = loss_bce(model(batch["image"], batch["text"]), batch["label"])
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item()
        scheduler.step()

        model.eval()
        val_loss, right = 0.0, []
        with torch.no_grad():
            for batch in val_loader:
                logits = model(batch["image"], batch["text"])
                val_loss += loss_bce(logits, batch["label"]).item()
                right.append(((logits > 0).float() == batch["label"]).float())
        print(f"epoch {epoch + 1}/{max_epochs} train loss {epoch_loss / len(train_loader):.4f} "
              f"val loss {val_loss / len(val_loader):.4f} val acc {torch.cat(right).mean():.3f}")


if __name__ == "__main__":
    main()
