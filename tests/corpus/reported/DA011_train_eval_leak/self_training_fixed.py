import argparse
import copy
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def parse():
    p = argparse.ArgumentParser("ensemble of weak learners on a graph, trained in stages with self-training")
    p.add_argument("--num_nodes", type=int, default=4000)
    p.add_argument("--num_classes", type=int, default=8)
    p.add_argument("--num_feats", type=int, default=128)
    p.add_argument("--num_layers", type=int, default=4, help="number of stages, every stage sees one hop more")
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--interval", type=int, default=2)
    p.add_argument("--batch_size", type=int, default=128)
    p.add_argument("--dim_hidden", type=int, default=640)
    p.add_argument("--dropout", type=float, default=0.3)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--SLE_threshold", type=float, default=0.7)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_graph(args):
    """Citation like graph: nodes of a class cite each other more often, features are noisy."""
    rng = np.random.default_rng(args.seed)
    n, c = args.num_nodes, args.num_classes
    y = rng.permutation(np.arange(n) % c)
    centers = rng.standard_normal((c, args.num_feats))
    x = 0.16 * centers[y] + rng.standard_normal((n, args.num_feats))
    # about eight neighbours each, a third of them chosen from the own class
    members = [np.flatnonzero(y == k) for k in range(c)]
    src = np.repeat(np.arange(n), 4)
    same = rng.random(len(src)) < 0.32
    dst = rng.integers(0, n, len(src))
    dst[same] = [rng.choice(members[k]) for k in y[src[same]]]
    keep = src != dst
    src, dst = src[keep], dst[keep]
    row = np.concatenate([src, dst, np.arange(n)])
    col = np.concatenate([dst, src, np.arange(n)])
    pairs = np.unique(row * n + col)
    row, col = pairs // n, pairs % n
    deg = np.bincount(row, minlength=n) ** -0.5
    adj = torch.sparse_coo_tensor(np.stack([row, col]), torch.tensor(deg[row] * deg[col], dtype=torch.float32),
                                  (n, n)).coalesce()

    order = rng.permutation(n)
    masks = {}
    for phase, part in zip(("train", "valid", "test"), np.split(order, [int(0.3 * n), int(0.5 * n)])):
        masks[phase] = torch.zeros(n, dtype=torch.bool)
        masks[phase][torch.from_numpy(part)] = True
    return torch.tensor(x, dtype=torch.float32), torch.from_numpy(y), adj, masks


class MLP_SLE(nn.Module):
    """Feature MLP plus an MLP on the propagated labels."""

    def __init__(self, args):
        super().__init__()
        self.dropout = args.dropout
        self.base = nn.Sequential(
            nn.Linear(args.num_feats, args.dim_hidden), nn.BatchNorm1d(args.dim_hidden), nn.ReLU(),
            nn.Dropout(args.dropout),
            nn.Linear(args.dim_hidden, args.dim_hidden), nn.BatchNorm1d(args.dim_hidden), nn.ReLU(),
            nn.Dropout(args.dropout), nn.Linear(args.dim_hidden, args.num_classes))
        self.label = nn.Sequential(
            nn.Linear(args.num_classes, 64), nn.ReLU(), nn.Dropout(args.dropout), nn.Linear(64, args.num_classes))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=args.lr)

    def forward(self, x, y_emb, use_label_mlp):
        out = self.base(x)
        if use_label_mlp:
            out = out + self.label(y_emb)
        return out

    def train_net(self, loader, loss_op, use_label_mlp):
        self.train()
        total_loss, correct, n = 0.0, 0, 0
        for x, y_emb, y in loader:
            self.optimizer.zero_grad()
            out = self(x, y_emb, use_label_mlp)
            loss = loss_op(out, y)
            loss.backward()
            self.optimizer.step()
            total_loss += loss.item() * len(y)
            correct += (out.argmax(1) == y).sum().item()
            n += len(y)
        return total_loss / n, correct / n

    @torch.no_grad()
    def inference(self, x, y_emb, use_label_mlp):
        self.eval()
        return self(x, y_emb, use_label_mlp)


class EnGCN:
    def __init__(self, args, adj):
        self.args, self.adj = args, adj
        self.model = MLP_SLE(args)

    def propagate(self, x):
        return torch.sparse.mm(self.adj, x)

    @staticmethod
    def evaluate(out, y, split_mask):
        correct = out.argmax(dim=1).eq(y)
        return {phase: correct[mask].float().mean().item() for phase, mask in split_mask.items()}

    def train_and_test(self, split_masks, x, y, loss_op):
        num_classes = self.args.num_classes
        results = torch.zeros(y.size(0), num_classes)
        y_emb = torch.zeros(y.size(0), num_classes)
        y_emb[split_masks["train"]] = F.one_hot(y[split_masks["train"]], num_classes).float()
        # for self training
        pseudo_labels = torch.zeros_like(y)
        pseudo_labels[split_masks["train"]] = y[split_masks["train"]]
        pseudo_split_masks = split_masks.copy()
        print(f"pseudo labels inited, rate: {pseudo_split_masks['train'].float().mean():.4f}")

        for hop in range(self.args.num_layers):
            print(f"------ training weak learner with hop {hop} ------")
            self.train_weak_learner(hop, x, y_emb, pseudo_labels, y, pseudo_split_masks, loss_op)

            # make prediction
            out = self.model.inference(x, y_emb, hop > 0)
            # self training: add hard labels
            val, pred = torch.max(F.softmax(out, dim=1), dim=1)
            SLE_mask = val >= self.args.SLE_threshold
            pseudo_split_masks["train"] = pseudo_split_masks["train"].logical_or(SLE_mask)
            pseudo_labels[SLE_mask] = pred[SLE_mask]
            pseudo_labels[split_masks["train"]] = y[split_masks["train"]]
            y_emb, x = self.propagate(y_emb), self.propagate(x)
            print(f"pseudo labels updated, rate: {pseudo_split_masks['train'].float().mean():.4f}")

            # SAMME.R
            out = F.log_softmax(out, dim=1)
            results += (num_classes - 1) * (out - torch.mean(out, dim=1).view(-1, 1))

        return self.evaluate(results, y, split_masks)

    def train_weak_learner(self, hop, x, y_emb, pseudo_labels, origin_labels, split_mask, loss_op):
        nodes = split_mask["train"]
        train_set = TensorDataset(x[nodes], y_emb[nodes], pseudo_labels[nodes])
        train_loader = DataLoader(train_set, batch_size=self.args.batch_size, shuffle=True, drop_last=True)
        use_label_mlp = hop > 0  # the first stage is a warm up
        best_valid_acc, best_state = 0.0, None
        for epoch in range(self.args.epochs):
            loss, train_acc = self.model.train_net(train_loader, loss_op, use_label_mlp)
            if (epoch + 1) % self.args.interval == 0:
                out = self.model.inference(x, y_emb, use_label_mlp)
                acc = self.evaluate(out, origin_labels, split_mask)
                if epoch + 1 == self.args.epochs or (epoch + 1) % (4 * self.args.interval) == 0:
                    print(f"Model: {hop:02d}, Epoch: {epoch:02d}, Loss: {loss:.4f}, Train acc: {100 * train_acc:.2f}, "
                          f"Valid acc: {100 * acc['valid']:.2f}, Test acc: {100 * acc['test']:.2f}")
                if acc["valid"] > best_valid_acc:
                    best_valid_acc = acc["valid"]
                    best_state = copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(best_state)


if __name__ == "__main__":
    args = parse()
    set_seed(args.seed)
    tic = time.time()
    x, y, adj, masks = make_graph(args)
    print(f"{args.num_nodes} nodes, {adj._nnz()} edges, "
          f"{ {k: int(v.sum()) for k, v in masks.items()} }")
    engine = EnGCN(args, adj)
    acc = engine.train_and_test(masks, x, y, nn.CrossEntropyLoss())
    print(f"Final train acc: {100 * acc['train']:.2f}, valid acc: {100 * acc['valid']:.2f}, "
          f"test acc: {100 * acc['test']:.2f}  ({time.time() - tic:.1f}s)")
