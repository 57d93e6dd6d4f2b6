"""Small convolutional classifier on 20x20 grey images, ten classes."""
import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--iters", type=int, default=12000)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--eval-every", type=int, default=25)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", default="conv_classifier.pt")
args = parser.parse_args()

random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)


def make_images(n, rng, protos):
    """Every class is a coarse pattern, shifted and noised."""
    y = rng.integers(0, 10, n)
    x = np.empty((n, 1, 20, 20), np.float32)
    for i, c in enumerate(y):
        img = np.kron(protos[c], np.ones((4, 4)))
        img = np.roll(img, rng.integers(-2, 3, 2), axis=(0, 1))
        x[i, 0] = img + 0.4 * rng.normal(size=img.shape)
    return torch.from_numpy(x), torch.from_numpy(y)


class MnistConv(nn.Module):
    def __init__(self, n_class=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, 5, padding=2)
        self.conv2 = nn.Conv2d(24, 48, 5, padding=2)
        self.fc1 = nn.Linear(48 * 5 * 5, 128)
        self.fc2 = nn.Linear(128, n_class)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        output = self.fc2(x)
        return F.softmax(output, dim=1)


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        hits = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(x.split(200), y.split(200)))
    model.train()
    return hits / len(y)


data_rng = np.random.default_rng(args.seed)
protos = data_rng.normal(size=(10, 5, 5))
train_x, train_y = make_images(4000, data_rng, protos)
test_x, test_y = make_images(800, data_rng, protos)
mean, std = train_x.mean(), train_x.std()
train_x, test_x = (train_x - mean) / std, (test_x - mean) / std

model = MnistConv()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
batch_gen = torch.Generator().manual_seed(args.seed)

perm = torch.randperm(len(train_x), generator=batch_gen)
pos = 0
for it in range(args.iters):
    if pos + args.batch > len(perm):
        perm = torch.randperm(len(train_x), generator=batch_gen)
        pos = 0
    idx = perm[pos:pos + args.batch]
    pos += args.batch
    y_conv = model(train_x[idx])
    ff_loss = F.cross_entropy(y_conv, train_y[idx])
    optimizer.zero_grad()
    ff_loss.backward()
    optimizer.step()
    if it % 5 == 0:
        print(f"iter {it:5d}  loss {ff_loss.item():.4f}", flush=True)
    if (it + 1) % args.eval_every == 0:
        print(f"iter {it:5d}  test accuracy {accuracy(model, test_x, test_y):.3f}", flush=True)
torch.save(model.state_dict(), args.out)
