"""Entity classification with relational graph convolutions, full graph."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def build_graph(num_nodes, num_rels, num_classes, seed):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, num_classes, num_nodes)
    adj = []
    for r in range(num_rels):
        a = np.zeros((num_nodes, num_nodes), dtype=np.float32)
        for i in range(num_nodes):
            want = (labels[i] + r) % num_classes
            pool = np.where(labels == want)[0] if rng.rand() < 0.7 else np.arange(num_nodes)
            a[i, rng.choice(pool, 4, replace=False)] = 1.0
        adj.append(torch.from_numpy(a / a.sum(1, keepdims=True)))
    centers = rng.randn(num_classes, 32)
    feats = centers[labels] * 0.35 + rng.randn(num_nodes, 32)
    order = rng.permutation(num_nodes)
    return adj, torch.tensor(feats, dtype=torch.float32), torch.tensor(labels), order


class RelGraphConv(nn.Module):
    def __init__(self, in_feat, out_feat, num_rels, num_bases, activation=None, dropout=0.0):
        super().__init__()
        self.bases = nn.Parameter(torch.empty(num_bases, in_feat, out_feat))
        self.coef = nn.Parameter(torch.empty(num_rels, num_bases))
        self.loop = nn.Linear(in_feat, out_feat)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.bases, gain=nn.init.calculate_gain("relu"))
        nn.init.xavier_uniform_(self.coef, gain=nn.init.calculate_gain("relu"))

    def forward(self, adj, h):
        weight = torch.einsum("rb,bio->rio", self.coef, self.bases)
        out = self.loop(h)
        for r, a in enumerate(adj):
            out = out + (a @ h) @ weight[r]
        if self.activation is not None:
            out = self.activation(out)
        return self.dropout(out)


class EntityClassify(nn.Module):
    def __init__(self, in_dim, h_dim, out_dim, num_rels, num_bases, dropout):
        super().__init__()
        self.layers = nn.ModuleList([
            RelGraphConv(in_dim, h_dim, num_rels, num_bases, activation=F.relu, dropout=dropout),
            RelGraphConv(h_dim, out_dim, num_rels, num_bases, activation=lambda x: F.softmax(x, dim=1)),
        ])

    def forward(self, adj, h):
        for layer in self.layers:
            h = layer(adj, h)
        return h


def main(args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    adj, feats, labels, order = build_graph(args.nodes, args.rels, args.classes, args.seed)
    n_train, n_val = int(0.6 * args.nodes), int(0.2 * args.nodes)
    train_idx = torch.from_numpy(order[:n_train])
    val_idx = torch.from_numpy(order[n_train:n_train + n_val])
    test_idx = torch.from_numpy(order[n_train + n_val:])

    model = EntityClassify(feats.size(1), args.hidden, args.classes, args.rels, args.bases, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.l2norm)

    start = time.time()
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        logits = model(adj, feats)
        loss = F.cross_entropy(logits[train_idx], labels[train_idx])
        loss.backward()
        optimizer.step()
        if epoch % 15 == 0 or epoch == args.epochs - 1:
            model.eval()
            with torch.no_grad():
                out = model(adj, feats)
                val_loss = F.cross_entropy(out[val_idx], labels[val_idx]).item()
                val_acc = (out[val_idx].argmax(1) == labels[val_idx]).float().mean().item()
            print(f"Epoch {epoch:03d} | Train Loss {loss.item():.4f} | Val Loss {val_loss:.4f} | Val Acc {val_acc:.3f}")
    model.eval()
    with torch.no_grad():
        out = model(adj, feats)
    acc = (out[test_idx].argmax(1) == labels[test_idx]).float().mean().item()
    print(f"Test Accuracy: {acc:.4f} | {(time.time() - start) / args.epochs:.3f} s/epoch")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="RGCN")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rels", type=int, default=3)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--bases", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--l2norm", type=float, default=2e-3)
    parser.add_argument("--epochs", type=int, default=75)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
