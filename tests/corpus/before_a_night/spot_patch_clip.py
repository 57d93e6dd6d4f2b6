import argparse
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def get_args():
    p = argparse.ArgumentParser(description="joint embedding of tissue patches and spot expression")
    p.add_argument("--max_epochs", type=int, default=150)
    p.add_argument("--batch_size", type=int, default=128)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--weight_decay", type=float, default=1e-3)
    p.add_argument("--temperature", type=float, default=0.07)
    p.add_argument("--projection_dim", type=int, default=64)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--n_spots", type=int, default=12000)
    p.add_argument("--n_genes", type=int, default=240)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class SpotDataset(Dataset):
    """A spot has a cell-type mixture; patch texture and gene counts both follow from it."""

    def __init__(self, n, n_genes, seed, world_seed=5):
        world = np.random.default_rng(world_seed)
        k = 10
        loadings = world.gamma(0.4, 2.0, size=(k, n_genes))
        colours = world.uniform(0.1, 0.9, size=(k, 3))
        freqs = world.uniform(0.3, 2.2, size=(k, 2))
        rng = np.random.default_rng(seed)
        mix = rng.dirichlet(np.full(k, 0.35), size=n)
        counts = rng.poisson(mix @ loadings * 4.0)
        self.expr = np.log1p(counts).astype(np.float32)
        yy, xx = np.mgrid[0:20, 0:20].astype(np.float32)
        waves = np.stack([np.sin(freqs[i, 0] * xx + freqs[i, 1] * yy) for i in range(k)])
        base = np.einsum("nk,kc->nc", mix, colours)[:, :, None, None]
        texture = np.einsum("nk,khw->nhw", mix, waves)[:, None]
        img = base + 0.3 * texture + 0.05 * rng.standard_normal((n, 3, 20, 20))
        self.img = img.astype(np.float32)

    def __len__(self):
        return len(self.expr)

    def __getitem__(self, i):
        return {"image": torch.from_numpy(self.img[i]), "reduced_expression": torch.from_numpy(self.expr[i])}


class ImageEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 96, 3, padding=1), nn.BatchNorm2d(96), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.net(x)


class ProjectionHead(nn.Module):
    def __init__(self, embedding_dim, projection_dim, dropout):
        super().__init__()
        self.projection = nn.Linear(embedding_dim, projection_dim)
        self.gelu = nn.GELU()
        self.fc = nn.Linear(projection_dim, projection_dim)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(projection_dim)

    def forward(self, x):
        projected = self.projection(x)
        x = self.dropout(self.fc(self.gelu(projected)))
        return F.normalize(self.layer_norm(x + projected), dim=-1)


def cross_entropy(preds, targets, reduction="none"):
    loss = (-targets * F.log_softmax(preds, dim=-1)).sum(1)
    return loss if reduction == "none" else loss.mean()


class CLIPModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.image_encoder = ImageEncoder()
        self.image_projection = ProjectionHead(96, args.projection_dim, args.dropout)
        self.spot_projection = ProjectionHead(args.n_genes, args.projection_dim, args.dropout)
        self.temperature = args.temperature

    def embed(self, batch):
        image_embeddings = self.image_projection(self.image_encoder(batch["image"]))
        spot_embeddings = self.spot_projection(batch["reduced_expression"])
        return image_embeddings, spot_embeddings

    def forward(self, batch):
        image_embeddings, spot_embeddings = self.embed(batch)

        # Calculating the Loss
        logits = (spot_embeddings @ image_embeddings.T) / self.temperature
        images_similarity = image_embeddings @ image_embeddings.T
        spots_similarity = spot_embeddings @ spot_embeddings.T
        targets = F.softmax(((images_similarity + spots_similarity) / 2) * self.temperature, dim=-1).detach()
        spots_loss = cross_entropy(logits, targets, reduction="none")
        images_loss = cross_entropy(logits.T, targets.T, reduction="none")
        loss = (images_loss + spots_loss) / 2.0
        return loss.mean()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    losses, hits, n = 0.0, 0, 0
    for batch in loader:
        losses += model(batch).item() * len(batch["image"])
        img, spot = model.embed(batch)
        rank = (spot @ img.T).topk(5, dim=1).indices
        hits += (rank == torch.arange(len(img))[:, None]).any(1).sum().item()
        n += len(img)
    return losses / n, hits / n


def main():
    args = get_args()
    set_seed(args.seed)
    train_set = SpotDataset(args.n_spots, args.n_genes, seed=args.seed)
    val_set = SpotDataset(1280, args.n_genes, seed=args.seed + 1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, shuffle=False)
    model = CLIPModel(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    print("chance loss %.3f, chance top5 %.3f" % (math.log(args.batch_size), 5 / args.batch_size))
    best = 1e9
    for epoch in range(args.max_epochs):
        model.train()
        for it, batch in enumerate(train_loader):
            loss = model(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if it % 20 == 0:
                print(f"epoch {epoch} [{it}/{len(train_loader)}] train_loss {loss.item():.4f}", flush=True)
        val_loss, top5 = validate(model, val_loader)
        print(f"epoch {epoch} val_loss {val_loss:.4f} top5 {top5:.3f}", flush=True)
        if val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), "spot_patch_best.pt")


if __name__ == "__main__":
    main()
