"""Node classification when the graph is not given: learn a kNN graph from the node features
(an MLP makes the similarities), then classify the nodes with a GCN on the learned graph."""
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_citations(n, n_words, n_classes, seed):
    """Bag-of-words of papers: every class has favourite words; a few records came without an abstract."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    background = rng.dirichlet(np.full(n_words, 0.3))
    topics = np.stack([rng.dirichlet(np.full(n_words, 0.05)) for _ in range(n_classes)])
    x = np.zeros((n, n_words), dtype=np.float32)
    for i in range(n):
        length = rng.poisson(22) + 5
        mix = 0.55 * background + 0.45 * topics[labels[i]]
        words = rng.choice(n_words, size=length, p=mix)
        x[i, words] = 1.0
    no_abstract = rng.choice(n, size=max(1, n // 80), replace=False)
    x[no_abstract] = 0.0
    return torch.from_numpy(x), torch.from_numpy(labels).long(), torch.from_numpy(no_abstract)


def split_masks(labels, per_class, n_val, n_test, skip, seed):
    gen = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=gen)
    usable = torch.ones(len(labels), dtype=torch.bool)
    usable[skip] = False
    order = order[usable[order]]
    train = torch.cat([order[labels[order] == c][:per_class] for c in labels.unique()])
    taken = torch.zeros(len(labels), dtype=torch.bool)
    taken[train] = True
    rest = order[~taken[order]]
    return train, rest[:n_val], rest[n_val:n_val + n_test]


def knn_fast(X, k, b):
    X = F.normalize(X, dim=1, p=2)
    rows, cols, values = [], [], []
    norm_row, norm_col = [], torch.zeros(X.shape[0])
    for index in range(0, X.shape[0], b):
        sub_tensor = X[index:index + b]
        similarities = torch.mm(sub_tensor, X.t())
        vals, inds = similarities.topk(k=k + 1, dim=-1)
        values.append(vals.reshape(-1))
        cols.append(inds.reshape(-1))
        rows.append(torch.arange(index, index + len(sub_tensor)).repeat_interleave(k + 1))
        norm_row.append(vals.sum(dim=1))
        norm_col = norm_col.index_add(0, inds.reshape(-1), vals.reshape(-1))
    rows, cols, values = torch.cat(rows), torch.cat(cols), torch.cat(values)
    norm = torch.cat(norm_row) + norm_col + 0.000000001
    values = values * (torch.pow(norm[rows], -0.5) * torch.pow(norm[cols], -0.5))
    return rows, cols, values


class MLPDiag(nn.Module):
    """Graph generator: a weight per word, kNN in the weighted space."""

    def __init__(self, isize, k, layers=2):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(isize)) for _ in range(layers)])
        self.k = k

    def forward(self, features):
        h = features
        for i, w in enumerate(self.weights):
            h = h * w
            if i != len(self.weights) - 1:
                h = F.relu(h)
        rows, cols, values = knn_fast(h, self.k, 400)
        rows_ = torch.cat((rows, cols))
        cols_ = torch.cat((cols, rows))
        values_ = F.relu(torch.cat((values, values)))
        return rows_, cols_, values_


def propagate(graph, x):
    rows, cols, values = graph
    return torch.zeros_like(x).index_add(0, rows, values.unsqueeze(1) * x[cols])


class GCN(nn.Module):
    def __init__(self, in_dim, hidden, n_classes, dropout, dropout_adj):
        super().__init__()
        self.lin1 = nn.Linear(in_dim, hidden)
        self.lin2 = nn.Linear(hidden, n_classes)
        self.dropout = nn.Dropout(dropout)
        self.dropout_adj = nn.Dropout(dropout_adj)

    def forward(self, features, graph):
        rows, cols, values = graph
        graph = (rows, cols, self.dropout_adj(values))
        x = F.relu(propagate(graph, self.lin1(features)))
        return propagate(graph, self.lin2(self.dropout(x)))


class Model(nn.Module):
    def __init__(self, in_dim, n_classes, args):
        super().__init__()
        self.graph_gen = MLPDiag(in_dim, args.k)
        self.gcn = GCN(in_dim, args.hidden, n_classes, args.dropout, args.dropout_adj)

    def forward(self, features):
        return self.gcn(features, self.graph_gen(features))


def accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


@torch.no_grad()
def evaluate(model, features, labels, idx):
    model.eval()
    logits = model(features)
    return F.cross_entropy(logits[idx], labels[idx]).item(), accuracy(logits[idx], labels[idx])


def train(args):
    features, labels, no_abstract = make_citations(args.nodes, args.words, args.classes, args.seed)
    train_idx, val_idx, test_idx = split_masks(labels, args.per_class, 200, 400, no_abstract, args.seed)
    print(f"{args.nodes} nodes, {args.words} words, {len(train_idx)}/{len(val_idx)}/{len(test_idx)} train/val/test")

    model = Model(args.words, args.classes, args)
    optimizer = torch.optim.Adam([
        {"params": model.graph_gen.parameters(), "lr": args.lr_adj, "weight_decay": 0.0},
        {"params": model.gcn.parameters(), "lr": args.lr, "weight_decay": args.w_decay},
    ])
    best_val, best_state = 0.0, copy.deepcopy(model.state_dict())
    start = time.time()
    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        logits = model(features)
        loss = F.cross_entropy(logits[train_idx], labels[train_idx])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            val_loss, val_acc = evaluate(model, features, labels, val_idx)
            print(f"Epoch {epoch:04d} | loss {loss.item():.4f} | train acc {accuracy(logits[train_idx], labels[train_idx]):.4f}"
                  f" | val loss {val_loss:.4f} | val acc {val_acc:.4f} | {time.time() - start:.1f}s")
            if val_acc > best_val:
                best_val, best_state = val_acc, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    print(f"best val acc {best_val:.4f}, test acc {evaluate(model, features, labels, test_idx)[1]:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--words", type=int, default=500)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--per_class", type=int, default=20)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--dropout_adj", type=float, default=0.25)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--lr_adj", type=float, default=0.01)
    parser.add_argument("--w_decay", type=float, default=5e-4)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    train(args)
