"""Train an animal re-identification embedding with random crops, flips and brightness jitter."""
import os
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEED = 42
DATA = Path("animal_crops")
IDENTITIES, PER_IDENTITY, SIZE, CROP = 24, 40, 24, 20
BATCH_SIZE, EPOCHS, LR, SCALE = 40, 250, 2e-3, 12.0
CHECKPOINT = "embedding_last.pt"


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)


def worker_init_fn(worker_id):
    seed = torch.initial_seed() % 2 ** 32
    random.seed(seed)
    np.random.seed(seed)


def prepare_crops():
    """Write one array of crops per identity: a coat pattern under varying light and noise."""
    DATA.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for k in range(IDENTITIES):
        coat = np.kron(rng.uniform(0, 1, (6, 6)), np.ones((4, 4)))
        light = rng.uniform(0.7, 1.3, (PER_IDENTITY, 1, 1))
        crops = coat[None] * light + rng.normal(0, 0.1, (PER_IDENTITY, SIZE, SIZE))
        np.save(DATA / f"animal_{k:03d}.npy", crops.astype(np.float32))


def split_identities():
    names = sorted(os.listdir(DATA))
    identities = {name: np.load(DATA / name) for name in names}
    train, val = [], []
    for label, (name, crops) in enumerate(identities.items()):
        order = np.random.default_rng(label).permutation(len(crops))
        train += [(crops[i], label) for i in order[:32]]
        val += [(crops[i], label) for i in order[32:]]
    return train, val


class CropDataset(Dataset):
    def __init__(self, items, mean, std, augment):
        self.items, self.mean, self.std, self.augment = items, mean, std, augment

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        image, label = self.items[i]
        image = (image - self.mean) / self.std
        margin = SIZE - CROP
        if self.augment:
            top, left = random.randint(0, margin), random.randint(0, margin)
            image = image * np.float32(np.random.uniform(0.85, 1.15))
        else:
            top = left = margin // 2
        image = image[top:top + CROP, left:left + CROP]
        return torch.from_numpy(image.copy())[None], label


class EmbeddingNet(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.project = nn.Linear(32 * (CROP // 4) ** 2, dim)
        self.prototypes = nn.Parameter(torch.randn(IDENTITIES, dim))

    def forward(self, x):
        z = F.normalize(self.project(self.features(x).flatten(1)), dim=1)
        return SCALE * z @ F.normalize(self.prototypes, dim=1).T


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def main():
    generator = set_seed(SEED)
    prepare_crops()
    train_items, val_items = split_identities()
    stack = np.stack([image for image, _ in train_items])
    mean, std = stack.mean(), stack.std()
    train_loader = DataLoader(CropDataset(train_items, mean, std, True), BATCH_SIZE, shuffle=True,
                              generator=generator, worker_init_fn=worker_init_fn)
    val_loader = DataLoader(CropDataset(val_items, mean, std, False), BATCH_SIZE)
    model = EmbeddingNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-4)
    start = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch_rng"])
        np.random.set_state(state["numpy_rng"])
        random.setstate(state["python_rng"])
        generator.set_state(state["generator"])
        start = state["epoch"] + 1
    for epoch in range(start, EPOCHS):
        model.train()
        total, seen = 0.0, 0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            seen += len(y)
        val_loss, val_acc = validate(model, val_loader)
        print(f"epoch {epoch} loss {total / seen:.4f} val {val_loss:.4f} acc {val_acc:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "torch_rng": torch.get_rng_state(), "numpy_rng": np.random.get_state(),
                    "python_rng": random.getstate(),
                    "generator": generator.get_state()}, CHECKPOINT)


if __name__ == "__main__":
    main()
