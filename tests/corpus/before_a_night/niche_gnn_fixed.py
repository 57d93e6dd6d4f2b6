"""Graph network on spatial transcriptomics: predict the tissue niche of a cell and its own expression from its neighbours."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_TYPES, N_NICHES = 8, 5


class SpatialData:
    """A collection of fields of view with cell positions, expression and niche labels."""

    def __init__(self, n_fovs, n_cells, n_genes, seed, reference=None):
        rng = np.random.default_rng(seed)
        if reference is None:
            programs = rng.gamma(0.6, 1.0, (N_TYPES, n_genes))
            composition = rng.dirichlet(np.full(N_TYPES, 0.35), N_NICHES)
            response = rng.normal(0, 0.5, (N_TYPES, n_genes)) * (rng.random((N_TYPES, n_genes)) < 0.15)
        else:
            programs, composition, response = reference
        self.reference = (programs, composition, response)
        expr, adj, niche = [], [], []
        for _ in range(n_fovs):
            pos = rng.uniform(0, 1, (n_cells, 2))
            centres = rng.uniform(0, 1, (7, 2))
            centre_niche = rng.integers(0, N_NICHES, 7)
            label = centre_niche[((pos[:, None] - centres[None]) ** 2).sum(-1).argmin(1)]
            types = np.array([rng.choice(N_TYPES, p=composition[k]) for k in label])
            d2 = ((pos[:, None] - pos[None]) ** 2).sum(-1)
            near = np.zeros((n_cells, n_cells), dtype=np.float32)
            order = np.argsort(d2, axis=1)[:, 1:9]
            near[np.arange(n_cells)[:, None], order] = 1.0
            near = np.maximum(near, near.T)
            neighbourhood = near @ np.eye(N_TYPES)[types] / near.sum(1, keepdims=True)
            rate = programs[types] * np.exp(neighbourhood @ response)
            counts = rng.poisson(2.0 * rate * rng.gamma(8.0, 1 / 8.0, (n_cells, 1)))
            expr.append(np.log1p(counts))
            adj.append(near / near.sum(1, keepdims=True))
            niche.append(label)
        self.x = torch.tensor(np.stack(expr), dtype=torch.float32)
        self.adj = torch.tensor(np.stack(adj), dtype=torch.float32)
        self.y = torch.tensor(np.stack(niche))

    def batches(self, size, shuffle):
        order = torch.randperm(len(self.x)) if shuffle else torch.arange(len(self.x))
        for idx in order.split(size):
            yield self.x[idx], self.adj[idx], self.y[idx]


class GraphLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.self_lin = nn.Linear(cin, cout)
        self.neigh_lin = nn.Linear(cin, cout, bias=False)
        self.norm = nn.LayerNorm(cout)

    def forward(self, x, adj):
        return F.relu(self.norm(self.self_lin(x) + self.neigh_lin(torch.bmm(adj, x))))


class InteractionModule(nn.Module):
    def __init__(self, n_genes, hidden=96, dropout=0.1):
        super().__init__()
        self.layers = nn.ModuleList([GraphLayer(n_genes, hidden), GraphLayer(hidden, hidden), GraphLayer(hidden, hidden)])
        self.dropout = nn.Dropout(dropout)
        self.niche_head = nn.Linear(hidden, N_NICHES)
        # expression is decoded from the neighbours only
        self.decoder = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_genes))

    def forward(self, x, adj):
        h = x
        for layer in self.layers:
            h = self.dropout(layer(h, adj))
        context = torch.bmm(adj, self.layers[0](x, adj))
        return self.niche_head(h), self.decoder(context)


class InteractionModel:
    """User-facing model: keeps the data set-up and the torch module."""

    def __init__(self, data, hidden):
        self.n_genes = data.x.size(-1)
        self.module = InteractionModule(self.n_genes, hidden)
        self.is_trained_ = False

    def __call__(self, x, adj):
        return self.module(x, adj)

    def train(self, mode=True):
        self.module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def state_dict(self):
        return self.module.state_dict()


class TrainingPlan(nn.Module):
    """Multi-task objective with learned task weights; owns the optimizer."""

    def __init__(self, model, lr, weight_decay, max_epochs):
        super().__init__()
        self.network = model
        self.log_vars = nn.Parameter(torch.zeros(2))
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=weight_decay)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, max_epochs)

    def losses(self, x, adj, y):
        niche_logits, recon = self.network(x, adj)
        ce = F.cross_entropy(niche_logits.flatten(0, 1), y.flatten())
        mse = F.mse_loss(recon, x)
        accuracy = (niche_logits.argmax(-1) == y).float().mean()
        return ce, mse, accuracy

    def training_step(self, batch):
        ce, mse, accuracy = self.losses(*batch)
        loss = torch.exp(-self.log_vars[0]) * ce + torch.exp(-self.log_vars[1]) * mse + self.log_vars.sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), ce.item(), mse.item(), accuracy.item()

    @torch.no_grad()
    def validate(self, data, size):
        self.network.eval()
        rows = [[v.item() for v in self.losses(*batch)] for batch in data.batches(size, shuffle=False)]
        self.network.train()
        return np.mean(rows, axis=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--fovs', type=int, default=600)
    parser.add_argument('--cells', type=int, default=160)
    parser.add_argument('--genes', type=int, default=80)
    parser.add_argument('--hidden', type=int, default=128)
    parser.add_argument('--batch-size', type=int, default=8)
    parser.add_argument('--max-epochs', type=int, default=1000)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--weight-decay', type=float, default=1e-4)
    parser.add_argument('--patience', type=int, default=150)
    parser.add_argument('--seed', type=int, default=42)
    parser.add_argument('--save-dir', default='niche_runs')
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save_dir, exist_ok=True)
    train = SpatialData(args.fovs, args.cells, args.genes, args.seed)
    val = SpatialData(48, args.cells, args.genes, args.seed + 1, train.reference)

    model = InteractionModel(train, args.hidden)
    plan = TrainingPlan(model.module, args.lr, args.weight_decay, args.max_epochs)
    best, stale = float('inf'), 0
    for epoch in range(args.max_epochs):
        t0, rows = time.time(), []
        plan.network.train()
        for batch in train.batches(args.batch_size, shuffle=True):
            rows.append(plan.training_step(batch))
        plan.scheduler.step()
        loss, ce, mse, acc = np.mean(rows, axis=0)
        val_ce, val_mse, val_acc = plan.validate(val, args.batch_size)
        print(f'epoch {epoch:3d}  loss {loss:.4f}  niche ce {ce:.4f} acc {acc:.3f}  expr mse {mse:.4f} | '
              f'val ce {val_ce:.4f} acc {val_acc:.3f} mse {val_mse:.4f}  [{time.time() - t0:.1f}s]', flush=True)
        if val_ce + val_mse < best:
            best, stale = val_ce + val_mse, 0
            torch.save({'module': model.state_dict(), 'epoch': epoch}, os.path.join(args.save_dir, 'model.pt'))
        else:
            stale += 1
            if stale >= args.patience:
                print('no improvement, stopping')
                break
    model.is_trained_ = True


if __name__ == '__main__':
    main()
