"""Edge classification for charged particle tracking with an interaction network.

Toy events: tracks of a solenoid detector cross the layers of a barrel, edges connect hits of neighbouring layers.
"""
import argparse
import logging
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(format='[%(asctime)s] %(levelname)s: %(message)s', datefmt='%H:%M:%S', level=logging.INFO)
logger = logging.getLogger('tracking')

LAYERS = np.array([32., 72., 116., 172., 260., 360., 500.])


def make_event(rng, n_tracks, noise=0.15):
    """Returns node features (r, phi, z, scaled), edge index, edge features and edge labels."""
    hits = []
    for t in range(n_tracks):
        pt = 0.5 + rng.exponential(1.0)
        phi0, z0 = rng.uniform(-math.pi, math.pi), rng.normal(0, 20)
        slope, charge = rng.normal(0, 0.9), rng.choice([-1, 1])
        for l, r in enumerate(LAYERS):
            if rng.rand() < 0.03:
                continue
            bend = 0.3 * 2.0 * r / 1000 / (2 * pt)
            phi = phi0 - charge * math.asin(min(bend, 1.0)) + rng.normal(0, 0.0015)
            hits.append((l, r, (phi + math.pi) % (2 * math.pi) - math.pi, z0 + slope * r + rng.normal(0, 0.8), t))
    for _ in range(int(noise * len(hits))):
        l = rng.randint(len(LAYERS))
        hits.append((l, LAYERS[l], rng.uniform(-math.pi, math.pi), rng.normal(0, 250), -1))
    layer, r, phi, z, pid = np.array(hits).T
    src, dst, feats, label = [], [], [], []
    for l in range(len(LAYERS) - 1):
        a, b = np.where(layer == l)[0], np.where(layer == l + 1)[0]
        dphi = (phi[b][None] - phi[a][:, None] + math.pi) % (2 * math.pi) - math.pi
        dr = r[b][None] - r[a][:, None]
        dz = z[b][None] - z[a][:, None]
        keep = (np.abs(dphi / dr) < 0.006) & (np.abs(z[a][:, None] - r[a][:, None] * dz / dr) < 1200)
        i, j = np.where(keep)
        src.append(a[i])
        dst.append(b[j])
        # dr and dz in units of the layer distance, dphi/dr and z0 in units of their usual spread
        feats.append(np.stack([dr[i, j] / 100, dz[i, j] / 50, dphi[i, j] / dr[i, j] * 2000,
                               (z[a][i] - r[a][i] * dz[i, j] / dr[i, j]) / 20], 1))
        label.append((pid[a][i] == pid[b][j]) & (pid[a][i] >= 0))
    x = np.stack([r / 500, phi / math.pi, z / 250], 1)
    return (torch.tensor(x, dtype=torch.float32), torch.tensor(np.stack([np.concatenate(src), np.concatenate(dst)])),
            torch.tensor(np.concatenate(feats), dtype=torch.float32),
            torch.tensor(np.concatenate(label), dtype=torch.float32))


def collate(events):
    xs, eis, eas, ys, off = [], [], [], [], 0
    for x, ei, ea, y in events:
        xs.append(x)
        eis.append(ei + off)
        eas.append(ea)
        ys.append(y)
        off += len(x)
    return torch.cat(xs), torch.cat(eis, 1), torch.cat(eas), torch.cat(ys)


def mlp(n_in, hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, n_out))


class InteractionNetwork(nn.Module):
    def __init__(self, node, edge, hidden):
        super().__init__()
        self.relational = mlp(2 * node + edge, hidden, edge)
        self.objects = mlp(node + edge, hidden, node)

    def forward(self, h, ei, e):
        e = self.relational(torch.cat([h[ei[0]], h[ei[1]], e], 1))
        agg = torch.zeros(len(h), e.shape[1]).index_add_(0, ei[1], e)
        return h + F.relu(self.objects(torch.cat([h, agg], 1))), e


class EdgeClassifier(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.node_encoder = nn.Linear(3, 8)
        self.edge_encoder = nn.Linear(4, 8)
        self.in1 = InteractionNetwork(8, 8, hidden)
        self.in2 = InteractionNetwork(8, 8, hidden)
        self.W = mlp(8 * 3, hidden, 1)

    def forward(self, x, ei, ea):
        h, e0 = F.relu(self.node_encoder(x)), F.relu(self.edge_encoder(ea))
        h, e1 = self.in1(h, ei, e0)
        h, e2 = self.in2(h, ei, F.relu(e1))
        return torch.sigmoid(self.W(torch.cat([e0, F.relu(e1), F.relu(e2)], 1))).squeeze(1)


def binary_focal_loss(inpt, target, alpha=0.25, gamma=2.0, pos_weight=None, mask_outliers=True):
    """Binary focal loss of edge probabilities.

    Args:
        inpt: edge weights between 0 and 1
        target: 1 for true edges
        pos_weight: weight of the positive examples, per edge
        mask_outliers: Mask 0s and 1s in input.
    """
    n_edges = len(inpt)
    if pos_weight is None:
        pos_weight = torch.ones_like(inpt)
    if mask_outliers:
        mask = torch.isclose(inpt, torch.Tensor([0.0])) | torch.isclose(inpt, torch.Tensor([1.0]))
        inpt = inpt[~mask]
        target = target[~mask]
        pos_weight = pos_weight[~mask]
    probs_pos = inpt
    probs_neg = 1 - inpt
    loss = (-alpha * pos_weight * torch.pow(probs_neg, gamma) * target * torch.log(probs_pos)
            - (1 - alpha) * torch.pow(probs_pos, gamma) * (1.0 - target) * torch.log(probs_neg))
    return loss.sum() / n_edges


@torch.no_grad()
def validate(model, events):
    model.eval()
    tp = fp = fn = tn = 0
    for ev in events:
        x, ei, ea, y = ev
        p = model(x, ei, ea) > 0.5
        t = y > 0.5
        tp, fp = tp + (p & t).sum().item(), fp + (p & ~t).sum().item()
        fn, tn = fn + (~p & t).sum().item(), tn + (~p & ~t).sum().item()
    return dict(tpr=tp / max(tp + fn, 1), tnr=tn / max(tn + fp, 1), f1=2 * tp / max(2 * tp + fp + fn, 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--epochs', type=int, default=14)
    ap.add_argument('--events', type=int, default=160)
    ap.add_argument('--tracks', type=int, default=40)
    ap.add_argument('--batch-size', type=int, default=2)
    ap.add_argument('--lr', type=float, default=3e-3)
    ap.add_argument('--gamma', type=float, default=1.0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(21)
    rng = np.random.RandomState(5)
    train = [make_event(rng, args.tracks) for _ in range(args.events)]
    val = [make_event(rng, args.tracks) for _ in range(24)]
    frac = torch.cat([e[3] for e in train]).mean().item()
    logger.info('%d train events, %.0f edges each, %.1f%% true', len(train), np.mean([len(e[3]) for e in train]),
                100 * frac)

    model = EdgeClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    order = np.random.RandomState(0)
    for epoch in range(1, args.epochs + 1):
        t0 = time.time()
        model.train()
        losses = []
        perm = order.permutation(len(train))
        for b in range(0, len(perm), args.batch_size):
            x, ei, ea, y = collate([train[k] for k in perm[b:b + args.batch_size]])
            w = model(x, ei, ea)
            loss = binary_focal_loss(w, y, gamma=args.gamma, pos_weight=torch.full_like(y, 4.0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        m = validate(model, val)
        logger.info('epoch %2d loss %.5f val tpr %.3f tnr %.3f f1 %.3f (%.1fs)', epoch, np.mean(losses), m['tpr'],
                    m['tnr'], m['f1'], time.time() - t0)


if __name__ == '__main__':
    main()
