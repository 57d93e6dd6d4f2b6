import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
from torch.nn import Parameter
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


# ----------------------------------------------------------------------------- data
class Scenes(Dataset):
    """Scenes with several objects; the labels come in groups that like to appear together."""

    def __init__(self, templates, groups, count, size, seed):
        rng = np.random.default_rng(seed)
        num_classes = len(templates)
        self.images = np.zeros((count, 3, size, size), np.float32)
        self.target = np.zeros((count, num_classes), np.float32)
        patch = templates.shape[-1]
        for n in range(count):
            theme = rng.integers(groups.max() + 1)
            prob = np.where(groups == theme, 0.6, 0.15)
            present = rng.random(num_classes) < prob
            if not present.any():
                present[rng.integers(num_classes)] = True
            img = 0.9 * rng.standard_normal((3, size, size))
            for c in np.flatnonzero(present):
                y, x = rng.integers(0, size - patch + 1, 2)
                img[:, y:y + patch, x:x + patch] += templates[c] * rng.uniform(0.9, 1.5)
            self.images[n] = img
            self.target[n] = present

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), torch.from_numpy(self.target[i])


# ----------------------------------------------------------------------------- model
def gen_adj(A):
    """Symmetric normalisation D^-1/2 A D^-1/2."""
    D = torch.pow(A.sum(1), -0.5)
    return D[:, None] * A * D[None, :]


class NonLocalBlock1D(nn.Module):
    """Learns how strongly every label listens to every other one."""

    def __init__(self, in_channels, inter_channels=None):
        super().__init__()
        self.inter_channels = inter_channels or max(in_channels // 2, 1)
        self.theta = nn.Conv1d(in_channels, self.inter_channels, kernel_size=1)
        self.phi = nn.Conv1d(in_channels, self.inter_channels, kernel_size=1)

    def forward(self, x):
        theta_x = self.theta(x).squeeze(2)
        phi_x = self.phi(x).squeeze(2).transpose(0, 1)
        f = torch.matmul(theta_x, phi_x) / math.sqrt(self.inter_channels)
        return torch.softmax(f, dim=1)


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = Parameter(torch.empty(in_features, out_features))
        stdv = 1.0 / math.sqrt(in_features)
        self.weight.data.uniform_(-stdv, stdv)

    def forward(self, x, adj):
        return torch.matmul(adj, torch.matmul(x, self.weight))


class GCNNet(nn.Module):
    def __init__(self, num_classes, in_channel, width=24, feature=64):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, feature, 3, padding=1), nn.BatchNorm2d(feature), nn.ReLU())
        self.pooling = nn.AdaptiveMaxPool2d(1)
        self.num_classes = num_classes
        self.non_local = NonLocalBlock1D(in_channel)
        self.gc1 = GraphConvolution(in_channel, 96)
        self.gc2 = GraphConvolution(96, feature)
        self.activate = nn.LeakyReLU(0.2)
        self.bias = Parameter(torch.zeros(num_classes))

    def forward(self, image, inp):
        feature = self.pooling(self.features(image)).flatten(1)
        adj = self.non_local(inp.unsqueeze(2))
        A1 = torch.eye(self.num_classes, device=inp.device)
        adj = adj + A1
        adj = gen_adj(adj).detach()
        x = self.gc1(inp, adj)
        x = self.activate(x)
        x = self.gc2(x, adj)
        return torch.matmul(feature, x.transpose(0, 1)) + self.bias

    def get_config_optim(self, lr, lrp):
        return [
            {"params": self.features.parameters(), "lr": lr * lrp},
            {"params": self.non_local.parameters(), "lr": lr},
            {"params": self.gc1.parameters(), "lr": lr},
            {"params": self.gc2.parameters(), "lr": lr},
            {"params": [self.bias], "lr": lr},
        ]


# ----------------------------------------------------------------------------- metric
def average_precision(scores, target):
    order = np.argsort(-scores)
    hit = target[order]
    if hit.sum() == 0:
        return np.nan
    precision = np.cumsum(hit) / (np.arange(len(hit)) + 1)
    return float((precision * hit).sum() / hit.sum())


class Engine:
    def __init__(self, args, model, criterion, optimizer, scheduler, inp):
        self.args, self.model, self.criterion = args, model, criterion
        self.optimizer, self.scheduler, self.inp = optimizer, scheduler, inp
        self.best = 0.0

    def train_epoch(self, loader):
        self.model.train()
        total, n = 0.0, 0
        for image, target in loader:
            output = self.model(image, self.inp)
            loss = self.criterion(output, target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            total += loss.item() * len(image)
            n += len(image)
        return total / n

    def validate(self, loader):
        self.model.eval()
        total, n, scores, targets = 0.0, 0, [], []
        with torch.no_grad():
            for image, target in loader:
                output = self.model(image, self.inp)
                total += self.criterion(output, target).item() * len(image)
                n += len(image)
                scores.append(output.numpy())
                targets.append(target.numpy())
        scores, targets = np.concatenate(scores), np.concatenate(targets)
        ap = [average_precision(scores[:, c], targets[:, c]) for c in range(scores.shape[1])]
        return total / n, float(np.nanmean(ap))

    def learning(self, train_loader, val_loader):
        start = time.time()
        for epoch in range(self.args.epochs):
            loss = self.train_epoch(train_loader)
            val_loss, m_ap = self.validate(val_loader)
            self.best = max(self.best, m_ap)
            print(f"Epoch: [{epoch}]\tTime {time.time() - start:.1f}\tLoss {loss:.4f}\t"
                  f"Val {val_loss:.4f}\tmAP {100 * m_ap:.2f}\tbest {100 * self.best:.2f}")


def main():
    parser = argparse.ArgumentParser(description="multi label training with a label graph")
    parser.add_argument("--num-classes", default=12, type=int)
    parser.add_argument("--image-size", default=28, type=int)
    parser.add_argument("--epochs", default=7, type=int)
    parser.add_argument("--batch-size", default=32, type=int)
    parser.add_argument("--lr", default=3e-3, type=float)
    parser.add_argument("--lrp", default=0.5, type=float, help="factor of the learning rate of the backbone")
    parser.add_argument("--seed", default=5, type=int)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    groups = np.arange(args.num_classes) // 3
    templates = rng.standard_normal((args.num_classes, 3, 7, 7))
    templates /= np.abs(templates).mean((1, 2, 3), keepdims=True)
    # word vectors: labels of one group are close to each other
    theme = rng.standard_normal((groups.max() + 1, 32))
    words = theme[groups] + 0.8 * rng.standard_normal((args.num_classes, 32))
    inp = torch.tensor(words / words.std(), dtype=torch.float32)

    train_set = Scenes(templates, groups, 3840, args.image_size, seed=args.seed + 1)
    val_set = Scenes(templates, groups, 768, args.image_size, seed=args.seed + 2)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, 128)

    model = GCNNet(args.num_classes, in_channel=32)
    criterion = nn.MultiLabelSoftMarginLoss()
    optimizer = torch.optim.Adam(model.get_config_optim(args.lr, args.lrp))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader), eta_min=1e-5)

    engine = Engine(args, model, criterion, optimizer, scheduler, inp)
    engine.learning(train_loader, val_loader)


if __name__ == "__main__":
    main()
