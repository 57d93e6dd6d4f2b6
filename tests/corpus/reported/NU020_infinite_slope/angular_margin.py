"""Face embedding with an additive angular margin head, two-dimensional so that it can be plotted."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ArcMarginProduct(nn.Module):
    def __init__(self, in_features, out_features, s=16.0, m=0.20):
        super().__init__()
        self.out_features = out_features
        self.s = s
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.xavier_uniform_(self.weight)
        self.cos_m, self.sin_m = math.cos(m), math.sin(m)
        self.th = math.cos(math.pi - m)
        self.mm = math.sin(math.pi - m) * m

    def forward(self, features, label):
        cosine = F.linear(F.normalize(features), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = F.one_hot(label, self.out_features).float()
        output = one_hot * phi + (1.0 - one_hot) * cosine
        return output * self.s, cosine * self.s


class FaceNet(nn.Module):
    def __init__(self, in_dim, emb_dim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(in_dim, 64), nn.BatchNorm1d(64), nn.PReLU(),
            nn.Linear(64, 64), nn.BatchNorm1d(64), nn.PReLU(),
            nn.Linear(64, emb_dim))

    def forward(self, x):
        return self.body(x)


def identities(n_ids, dim, seed):
    return torch.randn(n_ids, dim, generator=torch.Generator().manual_seed(seed))


def faces(centres, per_id, noise, seed):
    gen = torch.Generator().manual_seed(seed)
    label = torch.arange(len(centres)).repeat_interleave(per_id)
    x = centres[label] + noise * torch.randn(len(label), centres.size(1), generator=gen)
    return TensorDataset(x / math.sqrt(1 + noise ** 2), label)


def main():
    torch.manual_seed(0)
    centres = identities(6, 32, 3)
    train_loader = DataLoader(faces(centres, 256, 0.9, 4), batch_size=64, shuffle=True)
    test_loader = DataLoader(faces(centres, 64, 0.9, 5), batch_size=128)

    model, metric_fc = FaceNet(32, 2), ArcMarginProduct(2, 6)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        [{"params": model.parameters()}, {"params": metric_fc.parameters()}],
        lr=0.02, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.1)

    for epoch in range(15):
        model.train()
        metric_fc.train()
        total, right, seen = 0.0, 0, 0
        for x, label in train_loader:
            output, cosine = metric_fc(model(x), label)
            loss = criterion(output, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(label)
            right += (cosine.argmax(1) == label).sum().item()
            seen += len(label)
        scheduler.step()

        model.eval()
        metric_fc.eval()
        hit, count = 0, 0
        with torch.no_grad():
            for x, label in test_loader:
                _, cosine = metric_fc(model(x), label)
                hit += (cosine.argmax(1) == label).sum().item()
                count += len(label)
        print(f"epoch {epoch} loss {total / seen:.4f} acc {right / seen:.3f} test acc {hit / count:.3f}")


if __name__ == "__main__":
    main()
