# Leaf classification (after the Kaggle competition): three feature vectors and a small image per leaf.
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--num_classes", type=int, default=30)
parser.add_argument("--train_size", type=int, default=4800)
parser.add_argument("--val_size", type=int, default=600)
parser.add_argument("--batch_size", type=int, default=60)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--learning_rate", type=float, default=1e-3)
parser.add_argument("--seed", type=int, default=2018)
args = parser.parse_args()

IMAGE = 32


def draw_leaf(lobes, aspect, depth, rot, rng):
    yy, xx = np.mgrid[-1:1:IMAGE * 1j, -1:1:IMAGE * 1j]
    c, s = np.cos(rot), np.sin(rot)
    x, y = c * xx + s * yy, (-s * xx + c * yy) / aspect
    r = np.sqrt(x ** 2 + y ** 2)
    phi = np.arctan2(y, x)
    edge = 0.6 * (1 + depth * np.cos(lobes * phi))
    return 1 / (1 + np.exp(25 * (r - edge))) + rng.normal(0, 0.05, r.shape)


class LeafData:
    """Species have their own shape, margin and texture; single leaves vary around them."""

    def __init__(self, args, rng):
        k = args.num_classes
        self.lobes = rng.integers(1, 8, k)
        self.aspect = rng.uniform(0.4, 1.0, k)
        self.depth = rng.uniform(0.05, 0.4, k)
        self.protos = [rng.normal(0, 1, (k, 64)) for _ in range(3)]
        self.k = k

    def sample(self, n, rng):
        t = np.tile(np.arange(self.k), n // self.k + 1)[:n]
        rng.shuffle(t)
        feats = [p[t] * 0.5 + rng.normal(0, 1.6, (n, 64)) for p in self.protos]
        imgs = np.stack([draw_leaf(self.lobes[c], self.aspect[c] + rng.normal(0, 0.04), self.depth[c],
                                   rng.uniform(-0.5, 0.5), rng) for c in t])
        batch = {"images": torch.tensor((imgs - 0.3) / 0.45, dtype=torch.float32)[:, None],
                 "ts": torch.tensor(t)}
        for name, f in zip(("margins", "shapes", "textures"), feats):
            batch[name] = torch.tensor(f / 1.68, dtype=torch.float32)
        return batch


def batches(data, batch_size, generator=None):
    n = len(data["ts"])
    idx = torch.randperm(n, generator=generator) if generator is not None else torch.arange(n)
    for i in range(0, n, batch_size):
        yield {name: v[idx[i:i + batch_size]] for name, v in data.items()}


class Net(nn.Module):
    def __init__(self, num_classes):
        super(Net, self).__init__()
        self.conv_1 = nn.Conv2d(1, 16, kernel_size=5, padding=2)
        self.conv_2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.bn_1, self.bn_2 = nn.BatchNorm2d(16), nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(2)
        self.l_feat = nn.Linear(3 * 64, 128)
        self.l_img = nn.Linear(32 * (IMAGE // 4) ** 2, 64)
        self.dropout = nn.Dropout(0.3)
        self.l_out = nn.Linear(128 + 64, num_classes)

    def forward(self, x_img, x_margin, x_shape, x_texture):
        # Image
        x = self.pool(F.relu(self.bn_1(self.conv_1(x_img))))
        x = self.pool(F.relu(self.bn_2(self.conv_2(x))))
        x_img = F.relu(self.l_img(x.flatten(1)))
        # Features
        x_feat = F.relu(self.l_feat(torch.cat([x_margin, x_shape, x_texture], dim=1)))
        x = self.dropout(torch.cat([x_img, x_feat], dim=1))
        return self.l_out(x)


def forward(net, b):
    return net(b["images"], b["margins"], b["shapes"], b["textures"])


def accuracy(ys, ts):
    return (ys.argmax(1) == ts).float().mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    leaves = LeafData(args, rng)
    train, val = leaves.sample(args.train_size, rng), leaves.sample(args.val_size, rng)
    print("Information on dataset:", {k: tuple(v.shape) for k, v in train.items()})

    net = Net(args.num_classes)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(net.parameters(), lr=args.learning_rate, weight_decay=1e-4)
    gen = torch.Generator().manual_seed(args.seed)
    start = time.time()
    for epoch in range(1, args.epochs + 1):
        net.train()
        losses, accs = [], []
        for b in batches(train, args.batch_size, gen):
            output = forward(net, b)
            loss = criterion(output, b["ts"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            accs.append(accuracy(output.detach(), b["ts"]))
        net.eval()
        with torch.no_grad():
            outs = torch.cat([forward(net, b) for b in batches(val, 100)])
            val_loss = criterion(outs, val["ts"]).item()
        print("Epoch %2d : Train Loss %.4f , Train acc %.3f, Valid Loss %.4f, Valid acc %.3f  (%.0fs)" % (
            epoch, np.mean(losses), np.mean(accs), val_loss, accuracy(outs, val["ts"]), time.time() - start))


if __name__ == "__main__":
    main()
