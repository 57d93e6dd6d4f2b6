"""Patch-based anomaly detection in time series.

A small 1-D CNN is trained with a triplet objective on neighbouring patches (plus a short
warm-up pretext task); anomalies are test patches far from every patch of the clean part.
"""
import argparse
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def heartbeat(n, rng, period=50.0):
    """Quasi-periodic signal with a slow change of period and amplitude."""
    drift = np.cumsum(rng.normal(0, 0.002, n))
    phase = np.cumsum(2 * np.pi / (period * (1 + 0.1 * np.tanh(drift))))
    amp = 1 + 0.15 * np.sin(2 * np.pi * np.arange(n) / 900.0)
    x = np.sin(phase) + 0.6 * np.exp(4 * (np.cos(phase - 1.0) - 1)) - 0.35 * np.cos(2 * phase)
    return (amp * x + 0.08 * rng.standard_normal(n)).astype(np.float32)


def insert_anomalies(x, rng, count=14):
    x = x.copy()
    label = np.zeros(len(x), dtype=np.int64)
    for c in range(count):
        start = int((c + 0.3 + 0.4 * rng.random()) * len(x) / count)
        width = int(rng.integers(30, 60))
        seg = slice(start, start + width)
        kind = c % 4
        if kind == 0:
            x[seg] = x[start] + 0.08 * rng.standard_normal(width)
        elif kind == 1:
            x[seg] = x[seg][::-1]
        elif kind == 2:
            x[seg] += 0.7 * np.sin(2 * np.pi * np.arange(width) / 9.0)
        else:
            x[seg] *= 0.35
        label[seg] = 1
    return x, label


def to_patches(x, size):
    return torch.from_numpy(x).unfold(0, size, 1).unsqueeze(1).contiguous()


class PatchDataset(torch.utils.data.Dataset):
    def __init__(self, patches):
        self.patches = patches

    def __len__(self):
        return len(self.patches)

    def __getitem__(self, i):
        return self.patches[i], i


class PatchEncoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 24, 7, padding=3), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 48, 5, stride=2, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, dim, 3, stride=2, padding=1), nn.BatchNorm1d(dim), nn.ReLU())
        self.out = nn.Linear(2 * dim, dim)
        self.projection = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 32))
        self.classification_head = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def embedding(self, x):
        h = self.conv(x)
        return self.out(torch.cat([h.mean(dim=2), h.amax(dim=2)], dim=1))


@torch.no_grad()
def anomaly_scores(model, train_patches, test_patches):
    model.eval()
    bank = F.normalize(torch.cat([model.embedding(c) for c in train_patches[::3].split(512)]), dim=1)
    scores = []
    for c in test_patches.split(512):
        z = F.normalize(model.embedding(c), dim=1)
        scores.append(1 - (z @ bank.T).topk(3, dim=1).values.mean(dim=1))
    model.train()
    return torch.cat(scores).numpy()


def auroc(scores, labels):
    order = scores.argsort()
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    pos = labels == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (ranks[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


def train_model(model, loader, train_patches, test_patches, test_labels, args):
    radius, margin, num_rand_patches = 2, args.margin, 5
    initial_lr, final_lr = args.lr, args.lr / 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=initial_lr, weight_decay=1e-4)
    criterion_pretext = nn.BCEWithLogitsLoss(reduction="none")
    offsets = torch.tensor([*range(-radius, 0), *range(1, radius + 1)])
    total_len = len(train_patches)
    best_loss, best_wts = float("inf"), copy.deepcopy(model.state_dict())

    iteration = 0
    while iteration < args.num_iter:
        for anchors, idx in loader:
            if iteration >= args.num_iter:
                break
            iteration += 1
            cos = 0.5 * (1 + math.cos(math.pi * iteration / args.num_iter))
            for group in optimizer.param_groups:
                group["lr"] = final_lr + (initial_lr - final_lr) * cos
            M = len(anchors)

            # positives: a neighbouring patch
            cand = (idx.view(-1, 1) + offsets.view(1, -1)).clamp(0, total_len - 1)
            choice = torch.randint(0, cand.shape[1], (M, 1))
            positives = train_patches[cand.gather(1, choice).squeeze(1)]

            warm = args.num_iter / 10
            lam = 1 - iteration / warm if iteration < warm else 0.0
            if lam > 0:
                target = idx - args.patch
                valid = target >= 0
                patches = torch.cat([anchors, positives, train_patches[target.clamp(min=0)]])
                h_anchor, h_pos, h_pre = model.embedding(patches).split(M)
            else:
                h_anchor, h_pos = model.embedding(torch.cat([anchors, positives])).split(M)

            z_anchor = F.normalize(model.projection(h_anchor), dim=1)
            z_pos = F.normalize(model.projection(h_pos), dim=1)
            sim = z_anchor @ z_pos.T
            pos_sims = sim.diag()
            sim_neg = sim.clone()
            sim_neg.diagonal().fill_(-float("inf"))
            neg_dists = 1 - sim_neg
            hard_neg_dists, _ = torch.max(neg_dists, dim=1)
            pos_dists = 1 - pos_sims
            triplet_loss = F.relu(pos_dists - hard_neg_dists + margin).mean()

            pretext_loss = torch.zeros(())
            if lam > 0:
                pair_adj = torch.cat([h_anchor[valid], h_pre[valid]], dim=1)
                base = torch.arange(M).repeat_interleave(num_rand_patches)
                other = (base + torch.randint(1, M, (M * num_rand_patches,))) % M
                pair_far = torch.cat([h_anchor[base], h_anchor[other]], dim=1)
                out = model.classification_head(torch.cat([pair_adj, pair_far])).squeeze(1)
                y = torch.cat([torch.ones(len(pair_adj)), torch.zeros(len(pair_far))])
                per_pair = criterion_pretext(out, y)
                pretext_loss = per_pair[:len(pair_adj)].mean() + per_pair[len(pair_adj):].mean()

            loss = triplet_loss + lam * pretext_loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

            if loss.item() < best_loss:
                best_loss = loss.item()
                best_wts = copy.deepcopy(model.state_dict())
            if iteration % args.log_every == 0:
                auc = auroc(anomaly_scores(model, train_patches, test_patches), test_labels)
                print(f"iter {iteration:4d}  loss {loss.item():.4f}  triplet {triplet_loss.item():.4f}  "
                      f"pretext {pretext_loss.item():.4f}  AUROC {auc:.4f}", flush=True)
    model.load_state_dict(best_wts)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--patch", type=int, default=64)
    ap.add_argument("--train-len", type=int, default=5000)
    ap.add_argument("--test-len", type=int, default=3500)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--num-iter", type=int, default=500)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--margin", type=float, default=2.0)
    ap.add_argument("--log-every", type=int, default=50)
    ap.add_argument("--seed", type=int, default=2027)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(args.seed)

    clean = heartbeat(args.train_len, rng)
    test, point_labels = insert_anomalies(heartbeat(args.test_len, rng), rng)
    mean, std = clean.mean(), clean.std()
    train_patches = to_patches((clean - mean) / std, args.patch)
    test_patches = to_patches((test - mean) / std, args.patch)
    # a patch is anomalous when a third of it is
    windows = np.lib.stride_tricks.sliding_window_view(point_labels, args.patch)
    test_labels = (windows.mean(axis=1) > 0.33).astype(np.int64)
    print(f"{len(train_patches)} training patches, {len(test_patches)} test patches, {test_labels.mean():.1%} anomalous")

    loader = torch.utils.data.DataLoader(PatchDataset(train_patches), args.batch_size, shuffle=True, drop_last=True)
    model = PatchEncoder()
    train_model(model, loader, train_patches, test_patches, test_labels, args)
    print(f"final AUROC {auroc(anomaly_scores(model, train_patches, test_patches), test_labels):.4f}")


if __name__ == "__main__":
    main()
