"""Class incremental learning with a rehearsal memory on made-up texture images."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset


# ---------------------------------------------------------------- metrics
def get_model_size(model):
    """Number of parameters used by the model, buffers included."""
    training = model.training
    model.eval()
    n_params = sum(w.numel() for w in model.parameters()) + sum(b.numel() for b in model.buffers())
    model.train(training)
    return n_params


class Logger:
    def __init__(self):
        self.acc = []            # acc[t][i]: accuracy on task i after task t
        self.sizes = []

    def add_size(self, model):
        self.sizes.append(get_model_size(model))

    def add_accuracies(self, accs):
        self.acc.append(accs)

    @property
    def average_incremental_accuracy(self):
        return float(np.mean([np.mean(a) for a in self.acc]))

    @property
    def forgetting(self):
        if len(self.acc) < 2:
            return 0.0
        last = self.acc[-1]
        return float(np.mean([max(a[i] for a in self.acc[:-1] if i < len(a)) - last[i] for i in range(len(last) - 1)]))

    @property
    def model_size_growth(self):
        return self.sizes[-1] / self.sizes[0]


# ---------------------------------------------------------------- data
class TextureScenario:
    """Each class is an oriented wave with its own colour; classes come in tasks."""

    def __init__(self, n_tasks, per_task, n_train, n_test, size, seed):
        self.n_tasks, self.per_task, self.size = n_tasks, per_task, size
        rng = np.random.default_rng(seed)
        k = n_tasks * per_task
        self.angle = rng.permutation(np.linspace(0, np.pi, k, endpoint=False))
        self.freq = rng.uniform(2.0, 5.0, k)
        self.colour = 0.7 + 0.25 * rng.normal(0, 1, (k, 3))
        self.sets = [(self._draw(t, n_train, rng), self._draw(t, n_test, rng)) for t in range(n_tasks)]

    def _draw(self, task, n, rng):
        y = np.repeat(np.arange(task * self.per_task, (task + 1) * self.per_task), n // self.per_task)
        yy, xx = np.mgrid[0:1:self.size * 1j, 0:1:self.size * 1j]
        ang = self.angle[y] + rng.normal(0, 0.08, len(y))
        f = self.freq[y] * rng.uniform(0.9, 1.1, len(y))
        ph = rng.uniform(0, 2 * np.pi, len(y))
        wave = np.sin(2 * np.pi * f[:, None, None] * (np.cos(ang)[:, None, None] * xx + np.sin(ang)[:, None, None] * yy)
                      + ph[:, None, None])
        img = wave[:, None] * self.colour[y][:, :, None, None] + rng.normal(0, 1.6, (len(y), 3, self.size, self.size))
        return TensorDataset(torch.tensor(img / 1.7, dtype=torch.float32), torch.tensor(y))

    def __iter__(self):
        return iter(self.sets)


# ---------------------------------------------------------------- model
class ConvNet(nn.Module):
    def __init__(self, n_classes, width=16):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.features = nn.Sequential(block(3, width), block(width, 2 * width), block(2 * width, 4 * width))
        self.dropout = nn.Dropout(0.3)
        self.classifier = nn.Linear(4 * width, n_classes)

    def forward(self, x):
        return self.classifier(self.dropout(self.features(x).mean((2, 3))))


@torch.no_grad()
def evaluate(model, dataset, seen):
    was_training = model.training
    model.eval()
    hits = 0
    for x, y in DataLoader(dataset, 100):
        hits += (model(x)[:, :seen].argmax(1) == y).sum().item()
    model.train(was_training)
    return hits / len(dataset)


def train_task(model, dataset, logger, seen, args, task, start):
    loader = DataLoader(dataset, args.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    model.train()
    for epoch in range(args.epochs):
        total, hits, n = 0.0, 0, 0
        for x, y in loader:
            logits = model(x)[:, :seen]
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
        logger.add_size(model)
        print(f"task {task} epoch {epoch}: loss {total / len(loader):.4f} acc {hits / n:.3f} ({time.time() - start:.0f}s)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_tasks", type=int, default=3)
    parser.add_argument("--per_task", type=int, default=4)
    parser.add_argument("--train_size", type=int, default=1600)
    parser.add_argument("--test_size", type=int, default=400)
    parser.add_argument("--memory", type=int, default=400, help="samples kept of each old task")
    parser.add_argument("--image", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    scenario = TextureScenario(args.n_tasks, args.per_task, args.train_size, args.test_size, args.image, args.seed)
    model = ConvNet(args.n_tasks * args.per_task)
    logger, memory, tests = Logger(), [], []
    start = time.time()
    for task, (train_set, test_set) in enumerate(scenario):
        seen = (task + 1) * args.per_task
        train_task(model, ConcatDataset([train_set] + memory), logger, seen, args, task, start)
        memory.append(Subset(train_set, torch.randperm(len(train_set))[:args.memory].tolist()))
        tests.append(test_set)
        accs = [evaluate(model, t, seen) for t in tests]
        logger.add_accuracies(accs)
        print(f"== after task {task}: " + " ".join(f"{a:.3f}" for a in accs) +
              f" | avg incremental {logger.average_incremental_accuracy:.3f} forgetting {logger.forgetting:.3f} "
              f"size growth {logger.model_size_growth:.2f}")


if __name__ == "__main__":
    main()
