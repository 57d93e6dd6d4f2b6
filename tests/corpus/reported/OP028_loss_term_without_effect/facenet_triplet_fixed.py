"""Face embeddings with triplets and an identity classifier, on synthetic portraits."""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
from torch.nn import PairwiseDistance
from torch.utils.data import DataLoader, Dataset

SIZE = 20


def identity_template(rng):
    """A smooth random pattern: low frequency basis weighted per identity."""
    yy, xx = np.mgrid[:SIZE, :SIZE] / SIZE
    img = np.zeros((SIZE, SIZE))
    for _ in range(5):
        cy, cx = rng.uniform(0.15, 0.85, 2)
        s = rng.uniform(0.06, 0.16)
        img += rng.choice([-1, 1]) * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * s * s))
    return img


def portrait(template, rng, noise):
    img = np.roll(template, tuple(rng.randint(-3, 4, 2)), (0, 1))
    img = img * rng.uniform(0.6, 1.4) + rng.uniform(-0.3, 0.3)
    return (img + noise * rng.randn(SIZE, SIZE)).astype(np.float32)[None]


class TripletFaceDataset(Dataset):
    def __init__(self, n_classes, per_class, n_triplets, seed, noise=0.35):
        rng = np.random.RandomState(seed)
        templates = [identity_template(rng) for _ in range(n_classes)]
        self.images = [[portrait(t, rng, noise) for _ in range(per_class)] for t in templates]
        self.triplets = []
        for _ in range(n_triplets):
            c1, c2 = rng.choice(n_classes, 2, replace=False)
            i, j = rng.choice(per_class, 2, replace=False)
            self.triplets.append((c1, i, j, c2, rng.randint(per_class)))

    def __len__(self):
        return len(self.triplets)

    def __getitem__(self, index):
        c1, i, j, c2, k = self.triplets[index]
        return self.images[c1][i], self.images[c1][j], self.images[c2][k], c1, c2


class PairsDataset(Dataset):
    def __init__(self, n_classes, n_pairs, seed, noise=0.35):
        rng = np.random.RandomState(seed)
        templates = [identity_template(rng) for _ in range(n_classes)]
        self.pairs = []
        for p in range(n_pairs):
            a = rng.randint(n_classes)
            b = a if p % 2 == 0 else (a + rng.randint(1, n_classes)) % n_classes
            self.pairs.append((portrait(templates[a], rng, noise), portrait(templates[b], rng, noise), int(a == b)))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


class FaceModel(nn.Module):
    def __init__(self, embedding_size, num_classes):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten())
        self.fc = nn.Linear(32 * 25, embedding_size)
        self.classifier = nn.Linear(embedding_size, num_classes)

    def forward(self, x):
        x = self.fc(self.trunk(x))
        return 10 * x / torch.sqrt(x.pow(2).sum(1, keepdim=True) + 1e-10)

    def forward_classifier(self, x):
        return self.classifier(self.forward(x))


class TripletMarginLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin
        self.pdist = PairwiseDistance(2)

    def forward(self, anchor, positive, negative):
        d_p = self.pdist(anchor, positive)
        d_n = self.pdist(anchor, negative)
        return torch.mean(torch.clamp(self.margin + d_p - d_n, min=0.0))


def train(loader, model, optimizer, epoch, args):
    model.train()
    l2_dist = PairwiseDistance(2)
    criterion = nn.CrossEntropyLoss()
    log = {"triplet": [], "ce": [], "selected": []}
    for data_a, data_p, data_n, label_p, label_n in loader:
        out_a, out_p, out_n = model(data_a), model(data_p), model(data_n)
        d_p = l2_dist(out_a, out_p)
        d_n = l2_dist(out_a, out_n)
        chosen = (d_n - d_p < args.margin).numpy().flatten()
        hard_triplets = np.where(chosen == 1)
        if len(hard_triplets[0]) == 0:
            continue
        out_selected_a = out_a[hard_triplets]
        out_selected_p = out_p[hard_triplets]
        out_selected_n = out_n[hard_triplets]
        triplet_loss = TripletMarginLoss(args.margin)(out_selected_a, out_selected_p, out_selected_n)

        cls_a = model.forward_classifier(data_a)
        cls_p = model.forward_classifier(data_p)
        cls_n = model.forward_classifier(data_n)
        predicted_labels = torch.cat([cls_a, cls_p, cls_n])
        true_labels = torch.cat([label_p, label_p, label_n])
        cross_entropy_loss = criterion(predicted_labels, true_labels)

        loss = cross_entropy_loss + triplet_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["triplet"].append(triplet_loss.item())
        log["ce"].append(cross_entropy_loss.item())
        log["selected"].append(len(hard_triplets[0]) / len(data_a))
    print(f"Train Epoch: {epoch} triplet_loss {np.mean(log['triplet']):.4f} "
          f"cross_entropy_loss {np.mean(log['ce']):.4f} selected {np.mean(log['selected']):.3f}", end=" ")


def test(loader, model):
    model.eval()
    labels, distances = [], []
    with torch.no_grad():
        for a, p, label in loader:
            distances.append(PairwiseDistance(2)(model(a), model(p)).numpy())
            labels.append(label.numpy())
    labels, distances = np.concatenate(labels), np.concatenate(distances)
    acc = max(np.mean((distances < t) == (labels == 1)) for t in np.linspace(0, 20, 200))
    gap = distances[labels == 0].mean() - distances[labels == 1].mean()
    return acc, gap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--margin", type=float, default=3.0)
    parser.add_argument("--embedding-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--n-triplets", type=int, default=1600)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-dir", default="ckpt/facenet")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    os.makedirs(args.log_dir, exist_ok=True)
    train_set = TripletFaceDataset(240, 4, args.n_triplets, seed=1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True)
    test_loader = DataLoader(PairsDataset(40, 400, seed=2), 100)
    model = FaceModel(args.embedding_size, num_classes=240)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    start = time.time()
    for epoch in range(args.epochs):
        train(train_loader, model, optimizer, epoch, args)
        acc, gap = test(test_loader, model)
        print(f"| test accuracy {acc:.4f} distance gap {gap:.3f}", flush=True)
        torch.save({"epoch": epoch + 1, "state_dict": model.state_dict()},
                   os.path.join(args.log_dir, "checkpoint.pth"))
    print(f"done ({time.time() - start:.1f}s)")


if __name__ == "__main__":
    main()
