"""Magnitude pruning followed by fine-tuning, small-scale version of a pruning benchmark."""
import argparse
import json
import pathlib
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def glyphs(n, seed, n_classes=12, side=20):
    proto = np.random.default_rng(1234).standard_normal((n_classes, 3, 6, 6))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    x = 0.9 * rng.standard_normal((n, 3, side, side))
    for i in range(n):
        r, c = rng.integers(0, side - 12, 2)
        patch = np.kron(proto[y[i]], np.ones((1, 2, 2))) * rng.uniform(0.7, 1.3)
        x[i, :, r:r + 12, c:c + 12] += patch
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def dataset_builder(train=True, n_train=10000, n_val=2000):
    return TensorDataset(*(glyphs(n_train, 1) if train else glyphs(n_val, 2)))


class SmallVGG(nn.Module):
    def __init__(self, classes=12, width=32):
        super().__init__()
        layers, cin = [], 3
        for cout, pool in ((width, False), (width, True), (2 * width, False), (2 * width, True)):
            layers += [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)]
            if pool:
                layers.append(nn.MaxPool2d(2))
            cin = cout
        self.features = nn.Sequential(*layers)
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 25, 128), nn.ReLU(), nn.Linear(128, classes))

    def forward(self, x):
        return self.fc(self.features(x))


class GlobalMagPruning:
    def __init__(self, model, compression):
        weights = {n: p for n, p in model.named_parameters() if p.dim() > 1 and not n.startswith("fc.3")}
        flat = torch.cat([w.detach().abs().flatten() for w in weights.values()])
        k = int(flat.numel() * (1 - 1 / compression))
        threshold = flat.kthvalue(k).values if k > 0 else -1.0
        self.masks = {n: (w.detach().abs() > threshold).float() for n, w in weights.items()}

    @torch.no_grad()
    def apply(self, model):
        for n, p in model.named_parameters():
            if n in self.masks:
                p.mul_(self.masks[n])

    def density(self):
        return sum(m.sum().item() for m in self.masks.values()) / sum(m.numel() for m in self.masks.values())


class TrainingExperiment:
    def __init__(self, args):
        self.args = args
        self.fix_seed(args.seed)
        self.build_dataloader(batch_size=args.batch_size)
        self.model = SmallVGG()
        self.pruning = None
        self.path = pathlib.Path(args.path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.logs = []

    def fix_seed(self, seed):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)

    def build_dataloader(self, **dl_kwargs):
        self.train_dataset = dataset_builder(train=True)
        self.val_dataset = dataset_builder(train=False)
        self.train_dl = DataLoader(self.train_dataset, shuffle=True, **dl_kwargs)
        self.val_dl = DataLoader(self.val_dataset, shuffle=False, **dl_kwargs)

    def run_epoch(self, train, epoch, tag):
        dl = self.train_dl if train else self.val_dl
        self.model.train(train)
        loss_sum, acc1, acc5, n = 0.0, 0, 0, 0
        with torch.set_grad_enabled(train):
            for i, (x, y) in enumerate(dl):
                yhat = self.model(x)
                loss = F.cross_entropy(yhat, y)
                if train:
                    self.optim.zero_grad()
                    loss.backward()
                    self.optim.step()
                    if self.pruning is not None:
                        self.pruning.apply(self.model)
                    if i % 20 == 0:
                        print(f"{tag} ep {epoch} {i}/{len(dl)} loss {loss.item():.4f}", flush=True)
                top = yhat.topk(5, 1).indices == y[:, None]
                acc1 += top[:, 0].sum().item()
                acc5 += top.any(1).sum().item()
                loss_sum += loss.item() * len(y)
                n += len(y)
        return {"loss": loss_sum / n, "acc1": acc1 / n, "acc5": acc5 / n}

    def fit(self, epochs, lr, tag):
        self.optim = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.optim, epochs)
        best = 0.0
        for epoch in range(epochs):
            since = time.time()
            tr = self.run_epoch(True, epoch, tag)
            va = self.run_epoch(False, epoch, tag)
            sched.step()
            self.logs.append({"tag": tag, "epoch": epoch, "train": tr, "val": va})
            (self.path / "logs.json").write_text(json.dumps(self.logs))
            print(f"{tag} ep {epoch} train {tr['loss']:.4f}/{tr['acc1']:.3f} val {va['loss']:.4f}/{va['acc1']:.3f} "
                  f"({time.time() - since:.1f}s)", flush=True)
            if va["acc1"] > best:
                best = va["acc1"]
                torch.save(self.model.state_dict(), self.path / f"{tag}_best.pt")
        self.model.load_state_dict(torch.load(self.path / f"{tag}_best.pt"))

    def run(self):
        self.fit(self.args.dense_epochs, self.args.lr, "dense")
        for c in self.args.compressions:
            self.pruning = GlobalMagPruning(self.model, c)
            self.pruning.apply(self.model)
            print("compression", c, "density %.3f" % self.pruning.density(), self.run_epoch(False, -1, "pruned"))
            self.fit(self.args.finetune_epochs, self.args.lr / 5, f"finetune{c}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--dense_epochs", type=int, default=40)
    ap.add_argument("--finetune_epochs", type=int, default=25)
    ap.add_argument("--compressions", type=int, nargs="+", default=[2, 4, 8, 16])
    ap.add_argument("--seed", type=int, default=42)
    ap.add_argument("--path", default="prune_results")
    TrainingExperiment(ap.parse_args()).run()
