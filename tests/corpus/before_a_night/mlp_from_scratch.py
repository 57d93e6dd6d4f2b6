"""Fully connected network on 16x16 digit-like images, plain minibatch gradient descent."""
import math
import os
import random

import numpy as np
import torch
from torch import nn

LAYER_SIZES = [256, 256, 256, 10]
PARAM_SCALE = 0.1
STEP_SIZE = 0.5
MOMENTUM = 0.9
NUM_EPOCHS = 2000
BATCH_SIZE = 64
SEED = 0
CKPT = "mlp_digits.pt"

SEGMENTS = {0: "abcdef", 1: "bc", 2: "abged", 3: "abgcd", 4: "fgbc", 5: "afgcd", 6: "afgedc", 7: "abc",
            8: "abcdefg", 9: "abcdfg"}
BOX = {"a": (2, 3, 4, 11), "b": (3, 7, 11, 12), "c": (9, 13, 11, 12), "d": (13, 14, 4, 11),
       "e": (9, 13, 3, 4), "f": (3, 7, 3, 4), "g": (7, 8, 4, 11)}


def make_digits(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n)
    images = np.zeros((n, 16, 16), np.float32)
    for img, y in zip(images, labels):
        for s in SEGMENTS[int(y)]:
            r0, r1, c0, c1 = BOX[s]
            img[r0:r1 + 1, c0:c1 + 1] = rng.uniform(0.6, 1.0)
        img[:] = np.roll(img, rng.integers(-1, 2, 2), axis=(0, 1))
        img += 0.15 * rng.normal(size=img.shape)
    return torch.from_numpy(images).reshape(n, -1), torch.from_numpy(labels)


class Network(nn.Module):
    def __init__(self, sizes, scale):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(m, n) for m, n in zip(sizes[:-1], sizes[1:]))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=scale)
            nn.init.normal_(layer.bias, std=scale)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def loss_fn(network, images, labels):
    return nn.functional.cross_entropy(network(images), labels)


def accuracy(network, images, labels):
    network.eval()
    with torch.no_grad():
        hits = (network(images).argmax(1) == labels).float().mean().item()
    network.train()
    return hits


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    train_x, train_y = make_digits(1600, 1)
    test_x, test_y = make_digits(400, 2)
    mean, std = train_x.mean(), train_x.std()
    train_x, test_x = (train_x - mean) / std, (test_x - mean) / std

    network = Network(LAYER_SIZES, PARAM_SCALE)
    optimizer = torch.optim.SGD(network.parameters(), lr=STEP_SIZE, momentum=MOMENTUM)
    first = 0
    if os.path.exists(CKPT):
        state = torch.load(CKPT)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1

    gen = torch.Generator()
    n_batches = math.ceil(len(train_x) / BATCH_SIZE)
    for epoch in range(first, NUM_EPOCHS):
        gen.manual_seed(SEED + epoch)
        for b, idx in enumerate(torch.randperm(len(train_x), generator=gen).split(BATCH_SIZE)):
            loss = loss_fn(network, train_x[idx], train_y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if b % 5 == 0:
                print(f"epoch {epoch} batch {b}/{n_batches} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch} train {accuracy(network, train_x, train_y):.3f} test {accuracy(network, test_x, test_y):.3f}",
              flush=True)
        torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, CKPT)


if __name__ == "__main__":
    main()
