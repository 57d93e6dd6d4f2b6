"""Clothes classifier (synthetic FashionMNIST look-alike), plain PyTorch quickstart style."""
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 500
BATCH = 64
LR = 2e-3
SEED = 11
CKPT = "clothes.pth"

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


def make_data(n, templates, rng):
    labels = rng.integers(0, 10, size=n)
    imgs = templates[labels]
    shift = rng.integers(-2, 3, size=(n, 2))
    out = np.empty_like(imgs)
    for i in range(n):
        out[i] = np.roll(imgs[i], tuple(shift[i]), axis=(0, 1))
    out = out * rng.uniform(0.7, 1.1, size=(n, 1, 1)) + rng.normal(0, 0.25, size=out.shape)
    return torch.tensor(out, dtype=torch.float32).unsqueeze(1), torch.tensor(labels)


def make_templates(rng):
    coarse = rng.random((10, 7, 7)) > 0.5
    return np.kron(coarse, np.ones((1, 4, 4))).astype(np.float32)


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def train(dataloader, model, loss_fn, optimizer):
    size = len(dataloader.dataset)
    for batch, (X, y) in enumerate(dataloader):
        pred = model(X)
        loss = loss_fn(pred, y)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        if batch % 4 == 0:
            print(f"loss: {loss.item():>7f}  [{batch * len(X):>5d}/{size:>5d}]", flush=True)


def test(dataloader, model, loss_fn):
    size = len(dataloader.dataset)
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for X, y in dataloader:
            pred = model(X)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).sum().item()
    print(f"Test: accuracy {100 * correct / size:.1f}%, avg loss {test_loss / len(dataloader):.4f}\n", flush=True)


def main():
    rng = np.random.default_rng(SEED)
    templates = make_templates(rng)
    x_train, y_train = make_data(768, templates, rng)
    x_test, y_test = make_data(512, templates, rng)
    mean, std = x_train.mean(), x_train.std()
    gen = torch.Generator()
    train_dataloader = DataLoader(TensorDataset((x_train - mean) / std, y_train), BATCH,
                                  shuffle=True, generator=gen)
    test_dataloader = DataLoader(TensorDataset((x_test - mean) / std, y_test), 128)

    model = NeuralNetwork()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS, eta_min=LR / 100)
    start = 0
    if os.path.exists(CKPT):
        ckpt = torch.load(CKPT)
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        scheduler.load_state_dict(ckpt["scheduler"])
        torch.set_rng_state(ckpt["rng"])
        start = ckpt["epoch"]
        print(f"continuing from epoch {start}")

    for t in range(start, EPOCHS):
        print(f"Epoch {t + 1}\n-------------------------------")
        gen.manual_seed(SEED + t)
        train(train_dataloader, model, loss_fn, optimizer)
        test(test_dataloader, model, loss_fn)
        scheduler.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(),
                    "epoch": t + 1}, CKPT)
    print("Done!")


if __name__ == "__main__":
    main()
