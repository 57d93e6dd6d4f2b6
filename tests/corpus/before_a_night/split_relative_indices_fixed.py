"""Odor descriptors of molecules: multi-label prediction from fingerprints, iterative stratified split."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_BITS, N_TASKS = 256, 12


def load_molecules(n=900, seed=77):
    """Fingerprints built from fragments; every odor is a noisy function of a few fragments."""
    rng = np.random.default_rng(seed)
    fragments = rng.random((40, N_BITS)) < 0.06
    has = rng.random((n, 40)) < 0.12
    X = (has.astype(int) @ fragments.astype(int) > 0) ^ (rng.random((n, N_BITS)) < 0.02)
    w = np.where(rng.random((40, N_TASKS)) < 0.15, 3.0, 0.0)
    logit = has @ w - 2.2 + rng.normal(0, 0.4, (n, N_TASKS))
    Y = (rng.random((n, N_TASKS)) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return X.astype(np.float32), Y


class IterativeStratifiedSplitter:
    """Sechidis et al.: hand out the rarest label first to the part that wants it most."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def _two_way(self, Y, fraction):
        n = len(Y)
        want = np.array([n * fraction, n * (1 - fraction)])
        want_label = Y.sum(0)[None] * np.array([[fraction], [1 - fraction]])
        left, parts = np.ones(n, dtype=bool), ([], [])
        while left.any():
            counts = Y[left].sum(0)
            if counts.max() == 0:
                pool, label = np.flatnonzero(left), None
            else:
                label = int(np.where(counts > 0, counts, np.inf).argmin())
                pool = np.flatnonzero(left & (Y[:, label] > 0))
            for i in self.rng.permutation(pool):
                k = int((want if label is None else want_label[:, label] + 1e-6 * want).argmax())
                parts[k].append(int(i))
                want[k] -= 1
                want_label[k] -= Y[i]
                left[i] = False
        return np.array(sorted(parts[0])), np.array(sorted(parts[1]))

    def train_valid_test_split(self, Y, frac_train=0.7, frac_valid=0.15):
        train, rest = self._two_way(Y, frac_train)
        share = frac_valid / (1.0 - frac_train)
        valid, test = self._two_way(Y[rest], share)
        return train, rest[valid], rest[test]


class OdorNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N_BITS, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.3),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.3), nn.Linear(hidden, N_TASKS))

    def forward(self, x):
        return self.net(x)


def roc_auc(score, truth):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    p = truth.sum()
    q = len(truth) - p
    if p == 0 or q == 0:
        return float("nan")
    return ((rank[truth > 0].sum() - p * (p + 1) / 2) / (p * q)).item()


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        out = model(x)
        loss = F.binary_cross_entropy_with_logits(out, y).item()
    return loss, float(np.nanmean([roc_auc(out[:, t], y[:, t]) for t in range(N_TASKS)]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nb-epoch", type=int, default=800)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model-file", default="odor_model.pt")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    X, Y = load_molecules()
    train, valid, test = IterativeStratifiedSplitter(seed=args.seed).train_valid_test_split(Y)
    print(f"train {len(train)} valid {len(valid)} test {len(test)}")
    train_x, train_y = torch.tensor(X[train]), torch.tensor(Y[train])
    valid_x, valid_y = torch.tensor(X[valid]), torch.tensor(Y[valid])
    test_x, test_y = torch.tensor(X[test]), torch.tensor(Y[test])

    model = OdorNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.995)
    start = 0
    if os.path.exists(args.model_file):
        ck = torch.load(args.model_file)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        torch.set_rng_state(ck["rng"])
        start = ck["epoch"]
        print("restored epoch", start)
    for epoch in range(start, args.nb_epoch):
        model.train()
        order = torch.randperm(len(train_x), generator=torch.Generator().manual_seed(args.seed * 10007 + epoch))
        losses = []
        for idx in order.split(args.batch_size):
            if len(idx) < 2:
                continue
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(train_x[idx]), train_y[idx])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        vloss, vauc = evaluate(model, valid_x, valid_y)
        print(f"epoch {epoch} train {np.mean(losses):.4f} valid {vloss:.4f} valid roc-auc {vauc:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch + 1}, args.model_file)
    print("test:", evaluate(model, test_x, test_y))


if __name__ == "__main__":
    main()
