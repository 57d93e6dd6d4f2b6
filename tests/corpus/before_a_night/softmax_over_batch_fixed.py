"""Image search model: a classifier whose penultimate features are indexed for retrieval."""
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 2
EPOCHS = 300
BATCH_SIZE = 50
LEARNING_RATE = 1e-3
NUM_CLASSES = 10
MODEL_FILE = "search_model.pt"


def draw_glyphs(n, strokes, rng):
    labels = rng.integers(0, NUM_CLASSES, n)
    images = np.zeros((n, 1, 20, 20), dtype=np.float32)
    for i, y in enumerate(labels):
        dx, dy = rng.integers(-2, 3, 2)
        for (r0, c0, r1, c1) in strokes[y]:
            for t in np.linspace(0, 1, 24):
                r = int(round(r0 + (r1 - r0) * t)) + dy
                c = int(round(c0 + (c1 - c0) * t)) + dx
                images[i, 0, min(max(r, 0), 19), min(max(c, 0), 19)] = 1.0
    images += rng.normal(0, 0.15, images.shape)
    return torch.from_numpy(images), torch.from_numpy(labels)


class SearchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, 5, padding=2)
        self.conv2 = nn.Conv2d(24, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 25, 64)
        self.fc2 = nn.Linear(64, NUM_CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        features = torch.tanh(self.fc1(x.flatten(1)))
        predictions = F.softmax(self.fc2(features), dim=1)
        return predictions, features


def criterion(predictions, labels):
    return F.nll_loss(torch.log(predictions + 1e-8), labels)


def retrieval_precision(features, labels, k=5):
    f = F.normalize(features, dim=1)
    sim = f @ f.t()
    sim.fill_diagonal_(-2)
    nearest = sim.topk(k, dim=1).indices
    return (labels[nearest] == labels.unsqueeze(1)).float().mean().item()


def evaluate(model, loader):
    model.eval()
    feats, preds, labels = [], [], []
    with torch.no_grad():
        for x, y in loader:
            p, f = model(x)
            preds.append(p)
            feats.append(f)
            labels.append(y)
    preds, feats, labels = torch.cat(preds), torch.cat(feats), torch.cat(labels)
    accuracy = (preds.argmax(1) == labels).float().mean().item()
    return criterion(preds, labels).item(), accuracy, retrieval_precision(feats, labels)


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    strokes = [rng.integers(3, 17, size=(4, 4)) for _ in range(NUM_CLASSES)]
    x_train, y_train = draw_glyphs(1000, strokes, rng)
    x_test, y_test = draw_glyphs(300, strokes, rng)
    mu, sigma = x_train.mean(), x_train.std()
    generator = torch.Generator()
    train_loader = DataLoader(TensorDataset((x_train - mu) / sigma, y_train), BATCH_SIZE,
                              shuffle=True, generator=generator)
    test_loader = DataLoader(TensorDataset((x_test - mu) / sigma, y_test), BATCH_SIZE)

    model = SearchNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=EPOCHS // 3, gamma=0.3)
    epoch = 0
    if os.path.exists(MODEL_FILE):
        saved = torch.load(MODEL_FILE)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        epoch = saved["epochs_done"]

    while epoch < EPOCHS:
        generator.manual_seed(SEED * 7919 + epoch)
        model.train()
        for i, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            predictions, _ = model(x)
            loss = criterion(predictions, y)
            loss.backward()
            optimizer.step()
            if i % 5 == 0:
                print(f"epoch {epoch} [{i}/{len(train_loader)}] loss {loss.item():.4f}", flush=True)
        scheduler.step()
        epoch += 1
        val_loss, acc, prec = evaluate(model, test_loader)
        print(f"epoch {epoch}: test loss {val_loss:.4f} accuracy {acc:.3f} precision@5 {prec:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epochs_done": epoch}, MODEL_FILE)


if __name__ == "__main__":
    main()
