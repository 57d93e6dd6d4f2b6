import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class SANBertNetwork(nn.Module):
    """Shared encoder, one head for each task."""

    def __init__(self, opt):
        super().__init__()
        dim = opt["dim"]
        self.embed = nn.Embedding(opt["vocab"], dim)
        self.dense1 = nn.Linear(dim, 2 * dim)
        self.dense2 = nn.Linear(2 * dim, dim)
        self.LayerNorm = nn.LayerNorm(dim)
        self.pooler = nn.Linear(dim, dim)
        self.scoring_list = nn.ModuleList([nn.Linear(dim, n) for n in opt["label_sizes"]])

    def forward(self, ids, task_id):
        x = self.embed(ids)
        x = self.LayerNorm(x + self.dense2(F.gelu(self.dense1(x))))
        pooled = torch.tanh(self.pooler(x.mean(dim=1)))
        return self.scoring_list[task_id](pooled)


class MTDNNModel:
    def __init__(self, opt):
        self.opt = opt
        self.updates = 0
        self.network = SANBertNetwork(opt)
        no_decay = ["bias", "gamma", "beta", "LayerNorm.bias", "LayerNorm.weight"]
        optimizer_parameters = [
            {"params": [p for n, p in self.network.named_parameters() if n not in no_decay],
             "weight_decay": opt["weight_decay"]},
            {"params": [p for n, p in self.network.named_parameters() if n in no_decay],
             "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(optimizer_parameters, lr=opt["learning_rate"])
        for i, group in enumerate(self.optimizer.param_groups):
            print(f"group {i}: {len(group['params'])} tensors, weight decay {group['weight_decay']}")
        self.total_param = sum(p.nelement() for p in self.network.parameters() if p.requires_grad)

    def update(self, task_id, ids, labels):
        self.network.train()
        loss = F.cross_entropy(self.network(ids, task_id), labels)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.opt["global_grad_clipping"])
        self.optimizer.step()
        self.updates += 1
        return loss.item()

    def predict(self, task_id, ids, labels):
        self.network.eval()
        with torch.no_grad():
            out = self.network(ids, task_id)
        return F.cross_entropy(out, labels).item(), (out.argmax(1) == labels).float().mean().item()


def make_task(n, classes, offset, seed):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=gen)
    own = offset + y[:, None] * 10 + torch.randint(0, 10, (n, 14), generator=gen)
    other = torch.randint(0, 120, (n, 14), generator=gen)
    return torch.where(torch.rand(n, 14, generator=gen) < 0.35, own, other), y


def batches(tasks, batch_size):
    order = []
    for task_id, (ids, y) in enumerate(tasks):
        perm = torch.randperm(len(y))
        order += [(task_id, perm[i:i + batch_size]) for i in range(0, len(y), batch_size)]
    random.shuffle(order)
    return order


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--weight_decay", type=float, default=0.01)
    args = parser.parse_args()
    random.seed(13)
    np.random.seed(13)
    torch.manual_seed(13)
    opt = dict(vocab=120, dim=48, label_sizes=[4, 3], weight_decay=args.weight_decay,
               learning_rate=2e-3, global_grad_clipping=2.0)
    train = [make_task(1280, 4, 0, 1), make_task(960, 3, 60, 2)]
    dev = [make_task(300, 4, 0, 3), make_task(300, 3, 60, 4)]
    model = MTDNNModel(opt)
    for epoch in range(args.epochs):
        losses = []
        for task_id, index in batches(train, args.batch_size):
            ids, y = train[task_id]
            losses.append(model.update(task_id, ids[index], y[index]))
        report = " ".join("task%d dev loss %.3f acc %.3f" % (t, *model.predict(t, *dev[t])) for t in range(2))
        print(f"epoch {epoch} updates {model.updates} train loss {np.mean(losses):.4f} {report}")


if __name__ == "__main__":
    main()
