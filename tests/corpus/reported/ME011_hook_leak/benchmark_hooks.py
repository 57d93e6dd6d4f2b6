"""Keyword spotting: pre-train a conv + GRU network and benchmark it (accuracy, activation sparsity) as it learns."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

N_MFCC, FRAMES = 20, 40


def make_keywords(n, classes, seed):
    template_rng, rng = np.random.default_rng(1234), np.random.default_rng(seed)
    t = np.linspace(0, 1, FRAMES)
    templates = []
    for _ in range(classes):
        f1 = template_rng.uniform(2, 17) + template_rng.uniform(-6, 6) * t
        f2 = template_rng.uniform(2, 17) + template_rng.uniform(-5, 5) * np.sin(np.pi * t * template_rng.uniform(1, 3))
        templates.append((f1, f2))
    coef = np.arange(N_MFCC)[:, None]
    labels = rng.integers(0, classes, n)
    data = np.empty((n, N_MFCC, FRAMES), np.float32)
    for i, c in enumerate(labels):
        shift = rng.integers(-4, 5)
        pitch = rng.normal(0, 0.8)
        f1, f2 = (np.roll(f, shift) + pitch for f in templates[c])
        spec = np.exp(-((coef - f1) ** 2) / 3) + 0.7 * np.exp(-((coef - f2) ** 2) / 4)
        data[i] = spec * rng.uniform(0.6, 1.2) + rng.normal(0, 0.35, spec.shape)
    data = (data - 0.25) / 0.5
    return TensorDataset(torch.from_numpy(data), torch.from_numpy(labels))


class KeywordNet(nn.Module):
    def __init__(self, classes, hidden=112):
        super().__init__()
        self.conv1, self.bn1, self.act1 = nn.Conv1d(N_MFCC, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU()
        self.conv2, self.bn2, self.act2 = nn.Conv1d(32, 32, 3, stride=2, padding=1), nn.BatchNorm1d(32), nn.ReLU()
        self.rnn = nn.GRU(32, hidden, num_layers=2, batch_first=True)
        self.fc1, self.act3 = nn.Linear(hidden, 64), nn.ReLU()
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x):
        h = self.act1(self.bn1(self.conv1(x)))
        h = self.act2(self.bn2(self.conv2(h)))
        out, _ = self.rnn(h.transpose(1, 2))
        return self.fc2(self.act3(self.fc1(out[:, -1])))


class ActivationHook:
    """Collects what an activation layer puts out."""

    def __init__(self, layer):
        self.activation_outputs = []
        layer.register_forward_hook(self.hook_fn)

    def hook_fn(self, layer, inputs, output):
        self.activation_outputs.append(output.detach())

    def empty_hook(self):
        self.activation_outputs = []


class TorchModel:
    def __init__(self, net):
        self.net = net
        self.activation_hooks = []

    def __call__(self, batch):
        return self.net(batch)

    def activation_layers(self):
        return [m for m in self.net.modules() if isinstance(m, (nn.ReLU, nn.Sigmoid))]


def activation_sparsity(model, preds, data):
    total, nonzero = 0, 0
    for hook in model.activation_hooks:
        for out in hook.activation_outputs:
            total += out.numel()
            nonzero += torch.count_nonzero(out).item()
    return (total - nonzero) / total


def classification_accuracy(model, preds, data):
    return (preds.argmax(1) == data[1]).float().mean().item()


def parameter_count(model):
    return sum(p.numel() for p in model.net.parameters())


def connection_sparsity(model):
    weights = [m.weight for m in model.net.modules() if isinstance(m, (nn.Conv1d, nn.Linear))]
    return 1 - sum(torch.count_nonzero(w).item() for w in weights) / sum(w.numel() for w in weights)


class Benchmark:
    def __init__(self, model, dataloader, static_metrics, workload_metrics):
        self.model, self.dataloader = model, dataloader
        self.static_metrics, self.workload_metrics = static_metrics, workload_metrics

    @torch.no_grad()
    def run(self):
        self.model.net.eval()
        self.model.activation_hooks = [ActivationHook(layer) for layer in self.model.activation_layers()]
        results = {m.__name__: m(self.model) for m in self.static_metrics}
        sums, n = {m.__name__: 0.0 for m in self.workload_metrics}, 0
        for data in self.dataloader:
            preds = self.model(data[0])
            for m in self.workload_metrics:
                sums[m.__name__] += m(self.model, preds, data) * len(preds)
            n += len(preds)
            for hook in self.model.activation_hooks:
                hook.empty_hook()
        results.update({k: v / n for k, v in sums.items()})
        self.model.net.train()
        return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--train_size", type=int, default=2400)
    parser.add_argument("--test_size", type=int, default=384)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    train_loader = DataLoader(make_keywords(args.train_size, args.classes, 0), args.batch_size, shuffle=True)
    test_loader = DataLoader(make_keywords(args.test_size, args.classes, 1), 64)
    net = KeywordNet(args.classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=args.lr * 0.1)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        net.train()
        running = 0.0
        for x, y in train_loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        scheduler.step()
        benchmark = Benchmark(TorchModel(net), test_loader, [parameter_count, connection_sparsity],
                              [classification_accuracy, activation_sparsity])
        results = benchmark.run()
        print(f"epoch {epoch} loss {running / len(train_loader):.4f} " +
              " ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in results.items()), flush=True)


if __name__ == "__main__":
    main()
