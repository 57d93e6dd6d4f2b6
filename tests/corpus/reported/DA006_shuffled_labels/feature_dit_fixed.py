import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def extract_features(folder, n, seed):
    """Stage one: write latent features and class labels as separate files."""
    rng = np.random.RandomState(seed)
    centers = np.random.RandomState(11).randn(8, 16).astype(np.float32)
    labels = rng.randint(0, 8, n)
    for sub in ("features", "labels"):
        os.makedirs(os.path.join(folder, sub))
    for i in range(n):
        x = centers[labels[i]] + 0.3 * rng.randn(16)
        np.save(os.path.join(folder, "features", f"{i:05d}.npy"), x.astype(np.float32))
    for i in rng.permutation(n):
        np.save(os.path.join(folder, "labels", f"{i:05d}_y.npy"), np.int64(labels[i]))


class CustomDataset(Dataset):
    def __init__(self, features_dir, labels_dir):
        self.features_dir, self.labels_dir = features_dir, labels_dir
        self.features_files = sorted(os.listdir(features_dir))
        self.labels_files = sorted(os.listdir(labels_dir))
        assert len(self.features_files) == len(self.labels_files)
        self.features = [np.load(os.path.join(features_dir, f)) for f in self.features_files]
        self.labels = [np.load(os.path.join(labels_dir, f)) for f in self.labels_files]

    def __len__(self):
        return len(self.features)

    def __getitem__(self, idx):
        return torch.from_numpy(self.features[idx]), torch.tensor(int(self.labels[idx]))


class DiT(nn.Module):
    """Predicts the noise in a latent from the noisy latent, the time and the class."""

    def __init__(self, dim=96):
        super().__init__()
        self.y_embedder = nn.Embedding(8, dim)
        self.t_embedder = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.x_embedder = nn.Linear(16, dim)
        self.blocks = nn.Sequential(nn.SiLU(), nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU())
        self.final_layer = nn.Linear(dim, 16)

    def forward(self, x, t, y):
        h = self.x_embedder(x) + self.t_embedder(t) + self.y_embedder(y)
        return self.final_layer(self.blocks(h))


def diffusion_loss(model, x, y):
    t = 0.3 + 0.6 * torch.rand(len(x), 1)
    noise = torch.randn_like(x)
    xt = torch.sqrt(1 - t ** 2) * x + t * noise
    return nn.functional.mse_loss(model(xt, t, y), noise)


def load(folder):
    return CustomDataset(os.path.join(folder, "features"), os.path.join(folder, "labels"))


def main(args):
    torch.manual_seed(args.global_seed)
    with tempfile.TemporaryDirectory() as root:
        for split, n, seed in (("train", 1600, 1), ("val", 320, 2)):
            extract_features(os.path.join(root, split), n, seed)
        loader = DataLoader(load(os.path.join(root, "train")), batch_size=args.batch_size, shuffle=True)
        val_loader = DataLoader(load(os.path.join(root, "val")), batch_size=160)
        model = DiT()
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0)
        for epoch in range(args.epochs):
            model.train()
            running = 0.0
            for x, y in loader:
                loss = diffusion_loss(model, x, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                running += loss.item()
            model.eval()
            with torch.no_grad():
                val = np.mean([diffusion_loss(model, x, y).item() for x, y in val_loader])
            print(f"(epoch {epoch}) Train Loss: {running / len(loader):.4f} Val Loss: {val:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--global-seed", type=int, default=0)
    main(parser.parse_args())
