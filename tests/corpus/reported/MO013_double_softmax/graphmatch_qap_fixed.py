"""Siamese GNN for graph matching (quadratic assignment) on noisy copies of random graphs."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class GAPGenerator(Dataset):
    """Pairs (graph, noisy copy); node i of one graph corresponds to node i of the other."""

    def __init__(self, num_examples, n_vertices, edge_density, noise, seed):
        rng = np.random.RandomState(seed)
        self.data = []
        for _ in range(num_examples):
            g = self._symmetric(rng, n_vertices, edge_density)
            drop = self._symmetric(rng, n_vertices, noise)
            add = self._symmetric(rng, n_vertices, noise * edge_density / (1 - edge_density))
            g_noise = g * (1 - drop) + (1 - g) * add
            self.data.append((self.features(g), self.features(g_noise)))

    @staticmethod
    def _symmetric(rng, n, p):
        upper = np.triu((rng.rand(n, n) < p).astype(np.float32), 1)
        return upper + upper.T

    @staticmethod
    def features(adj):
        walk = adj / np.maximum(adj.sum(1, keepdims=True), 1)
        power, feats = walk.copy(), [adj.sum(1) / len(adj)]
        for k in range(6):
            power = power @ walk
            feats.append(np.diag(power) * (k + 2))
        return torch.from_numpy(adj), torch.from_numpy(np.stack(feats, 1).astype(np.float32))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        (a1, x1), (a2, x2) = self.data[i]
        return a1, x1, a2, x2


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.own, self.mean, self.sq = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, adj, x):
        deg = adj.sum(-1, keepdim=True).clamp(min=1)
        m1 = adj @ x / deg
        m2 = adj @ m1 / deg
        return self.norm(x + torch.relu(self.own(x) + self.mean(m1) + self.sq(m2)))


class NodeEmbedding(nn.Module):
    def __init__(self, in_features, dim, num_blocks, out_features):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(in_features, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList([Block(dim) for _ in range(num_blocks)])
        self.out = nn.Linear(dim, out_features)

    def forward(self, adj, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(adj, x)
        return self.out(x)


class SiameseModel(nn.Module):
    def __init__(self, in_features, dim, num_blocks, out_features):
        super().__init__()
        self.node_embedder = NodeEmbedding(in_features, dim, num_blocks, out_features)

    def forward(self, a1, x1, a2, x2):
        e1, e2 = self.node_embedder(a1, x1), self.node_embedder(a2, x2)
        return torch.matmul(e1, e2.transpose(1, 2))


class triplet_loss(nn.Module):
    def __init__(self, loss=nn.CrossEntropyLoss(reduction='sum')):
        super().__init__()
        self.loss = loss

    def forward(self, raw_scores):
        """raw_scores is the output of the siamese network (bs, n_vertices, n_vertices)"""
        loss, total = 0, 0
        for out in raw_scores:
            n_vertices = out.shape[0]
            target = torch.arange(n_vertices)
            loss += self.loss(out, target)
            total += n_vertices
        return loss / total


def accuracy_max(raw_scores):
    preds = raw_scores.argmax(-1)
    return int((preds == torch.arange(raw_scores.shape[-1])).sum()), preds.numel()


def run_val(model, loader, criterion):
    model.eval()
    loss, correct, total = 0.0, 0, 0
    with torch.no_grad():
        for batch in loader:
            scores = model(*batch)
            loss += criterion(scores).item()
            c, t = accuracy_max(scores)
            correct, total = correct + c, total + t
    return loss / len(loader), correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--n_vertices', type=int, default=20)
    parser.add_argument('--edge_density', type=float, default=0.3)
    parser.add_argument('--noise', type=float, default=0.03)
    parser.add_argument('--num_train', type=int, default=1600)
    parser.add_argument('--num_val', type=int, default=200)
    parser.add_argument('--batch_size', type=int, default=32)
    parser.add_argument('--dim', type=int, default=64)
    parser.add_argument('--num_blocks', type=int, default=3)
    parser.add_argument('--epochs', type=int, default=12)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--scheduler_step', type=int, default=5)
    parser.add_argument('--seed', type=int, default=42)
    args = parser.parse_args()
    torch.set_num_threads(1)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set = GAPGenerator(args.num_train, args.n_vertices, args.edge_density, args.noise, args.seed)
    val_set = GAPGenerator(args.num_val, args.n_vertices, args.edge_density, args.noise, args.seed + 1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, args.batch_size)
    model = SiameseModel(7, args.dim, args.num_blocks, args.dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, args.scheduler_step, gamma=0.5)
    criterion = triplet_loss()
    folder = tempfile.mkdtemp(prefix='qap')
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        losses, correct, total = [], 0, 0
        for batch in train_loader:
            raw_scores = model(*batch)
            loss = criterion(raw_scores)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            c, t = accuracy_max(raw_scores)
            correct, total = correct + c, total + t
        scheduler.step()
        val_loss, val_acc = run_val(model, val_loader, criterion)
        print('Epoch: [%d]  Loss %.4f  Acc %.4f  * Validation loss %.4f  acc %.4f'
              % (epoch, np.mean(losses), correct / total, val_loss, val_acc), flush=True)
        if val_acc > best:
            best = val_acc
            torch.save({'epoch': epoch, 'state_dict': model.state_dict()}, os.path.join(folder, 'model_best.pth.tar'))
    print('best validation accuracy %.4f' % best)


if __name__ == '__main__':
    main()
