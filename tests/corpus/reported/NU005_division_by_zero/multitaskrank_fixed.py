# Multi task ranking (click and conversion) with shared embeddings, MMoE and one tower per task.
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CATE_FEATURES = {"user_id": 400, "item_id": 300, "category": 24, "hour": 24, "device": 5}
DENSE_FEATURES = ["price", "age", "history"]


class Log(object):
    """Exposure log of a small shop."""

    def __init__(self, seed=2):
        rng = np.random.RandomState(seed)
        self.rng = rng
        self.user = rng.normal(0, 1, (CATE_FEATURES["user_id"], 4))
        self.item = rng.normal(0, 1, (CATE_FEATURES["item_id"], 4))
        self.item_cat = rng.randint(CATE_FEATURES["category"], size=CATE_FEATURES["item_id"])
        self.item_price = rng.lognormal(0, 0.5, CATE_FEATURES["item_id"])
        self.cat_bias = rng.normal(0, 0.5, CATE_FEATURES["category"])

    def draw(self, n):
        rng = self.rng
        user = rng.randint(CATE_FEATURES["user_id"], size=n)
        item = rng.randint(CATE_FEATURES["item_id"], size=n)
        cat = self.item_cat[item]
        hour, device = rng.randint(24, size=n), rng.randint(5, size=n)
        price = np.log(self.item_price[item]) + rng.normal(0, 0.1, n)
        age, history = rng.normal(0, 1, n), rng.normal(0, 1, n)
        match = (self.user[user] * self.item[item]).sum(1)
        z = -4.9 + 0.9 * match + self.cat_bias[cat] + 0.4 * np.cos((hour - 20) / 24 * 2 * np.pi) + 0.3 * history
        click = rng.rand(n) < 1 / (1 + np.exp(-z))
        zb = -1.2 + 0.8 * match - 0.9 * price + 0.7 * history + 0.3 * age
        buy = click & (rng.rand(n) < 1 / (1 + np.exp(-zb)))
        sparse = np.stack([user, item, cat, hour, device], 1)
        dense = np.stack([price, age, history], 1).astype(np.float32)
        return sparse, dense, click.astype(np.float32), buy.astype(np.float32)


class LogDataset(Dataset):
    def __init__(self, log, n):
        self.sparse, self.dense, self.click, self.buy = log.draw(n)

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        return self.sparse[i], self.dense[i], self.click[i], self.buy[i]


class MLP(nn.Module):
    def __init__(self, in_features, hidden_units):
        super().__init__()
        layers = []
        for h in hidden_units:
            layers += [nn.Linear(in_features, h), nn.ReLU()]
            in_features = h
        self.mlp = nn.Sequential(*layers)

    def forward(self, x):
        return self.mlp(x)


class MMoE(nn.Module):
    def __init__(self, emb_dim, num_expert, expert_units, tower_units, task_names):
        super().__init__()
        self.task_names = task_names
        self.embeddings = nn.ModuleList([nn.Embedding(n, emb_dim) for n in CATE_FEATURES.values()])
        for e in self.embeddings:
            nn.init.normal_(e.weight, std=0.1)
        n_in = emb_dim * len(CATE_FEATURES) + len(DENSE_FEATURES) + emb_dim
        self.experts = nn.ModuleList([MLP(n_in, expert_units) for _ in range(num_expert)])
        self.gates = nn.ModuleDict({t: nn.Linear(n_in, num_expert) for t in task_names})
        self.towers = nn.ModuleDict({
            t: nn.Sequential(MLP(expert_units[-1], tower_units), nn.Linear(tower_units[-1], 1)) for t in task_names})
        for t in task_names:
            nn.init.constant_(self.towers[t][-1].bias, -1.0)

    def forward(self, sparse, dense):
        embs = [e(sparse[:, i]) for i, e in enumerate(self.embeddings)]
        x = torch.cat(embs + [dense, embs[0] * embs[1]], dim=1)
        outs = torch.stack([e(x) for e in self.experts], dim=1)
        logits = {}
        for t in self.task_names:
            g = torch.softmax(self.gates[t](x), dim=1)
            logits[t] = self.towers[t]((outs * g.unsqueeze(2)).sum(1)).squeeze(1)
        return logits


def div_no_nan(input, other):
    return torch.nan_to_num(torch.div(input, other), nan=0.0, posinf=0.0, neginf=0.0)


class MultiTaskRank(nn.Module):
    """Loss of all towers. A task space label restricts a tower to the samples in its space."""

    def __init__(self, net, task_cfg):
        super().__init__()
        self.net = net
        self.task_cfg = task_cfg
        self.bce = nn.BCEWithLogitsLoss(reduction="none")

    def loss(self, predictions, labels):
        losses = {}
        for task, cfg in self.task_cfg.items():
            loss = self.bce(predictions[task], labels[task])
            if cfg["space"] is not None:
                in_task_space = (labels[cfg["space"]] > 0).float()
                loss_weight = cfg["in_weight"] * in_task_space + cfg["out_weight"] * (1 - in_task_space)
                loss_weight = div_no_nan(loss_weight, torch.mean(loss_weight))
                loss = loss * loss_weight
            losses["bce_" + task] = cfg["weight"] * torch.mean(loss)
        return losses


def auc(score, label):
    order = np.argsort(score, kind="mergesort")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = label > 0
    n1, n0 = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n1 * (n1 + 1) / 2) / max(n1 * n0, 1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    ps = {t: [] for t in model.task_cfg}
    clicks, buys = [], []
    for sparse, dense, click, buy in loader:
        out = model.net(sparse, dense)
        for t in ps:
            ps[t].append(out[t].numpy())
        clicks.append(click.numpy())
        buys.append(buy.numpy())
    click, buy = np.concatenate(clicks), np.concatenate(buys)
    in_space = click > 0
    return (auc(np.concatenate(ps["ctr"]), click), auc(np.concatenate(ps["cvr"])[in_space], buy[in_space]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train", type=int, default=52000)
    parser.add_argument("--num_eval", type=int, default=20000)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--num_epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--log_step", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(17)

    log = Log()
    train_set, eval_set = LogDataset(log, args.num_train), LogDataset(log, args.num_eval)
    print("train: %d rows, ctr %.4f, cvr %.4f" % (
        len(train_set), train_set.click.mean(), train_set.buy.sum() / train_set.click.sum()))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    eval_loader = DataLoader(eval_set, batch_size=2000)

    task_cfg = {
        "ctr": dict(space=None, weight=1.0),
        "cvr": dict(space="ctr", in_weight=1.0, out_weight=0.0, weight=0.5),
    }
    model = MultiTaskRank(MMoE(16, 6, [288, 128], [64], list(task_cfg)), task_cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    lr_scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, args.num_epochs * len(train_loader))
    step = 0
    start = time.time()
    for epoch in range(args.num_epochs):
        model.train()
        sums = {}
        for sparse, dense, click, buy in train_loader:
            predictions = model.net(sparse, dense)
            losses = model.loss(predictions, {"ctr": click, "cvr": buy})
            total_loss = sum(losses.values())
            optimizer.zero_grad()
            total_loss.backward()
            optimizer.step()
            lr_scheduler.step()
            step += 1
            for k, v in losses.items():
                sums[k] = sums.get(k, 0.0) + v.item()
            if step % args.log_step == 0:
                print("step %d %s (%.0fs)" % (
                    step, " ".join("%s: %.4f" % (k, v / args.log_step) for k, v in sums.items()),
                    time.time() - start))
                sums = {}
        ctr_auc, cvr_auc = evaluate(model, eval_loader)
        print("epoch %d eval auc ctr %.4f cvr %.4f" % (epoch, ctr_auc, cvr_auc))


if __name__ == "__main__":
    main()
