"""Misinformation detection: classify claims from the evidence of two document clusters."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

FEATURES, TOPICS = 64, 10


def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps):
    def lr_lambda(step):
        if step < num_warmup_steps:
            return step / max(1, num_warmup_steps)
        return max(0.0, (num_training_steps - step) / max(1, num_training_steps - num_warmup_steps))

    return LambdaLR(optimizer, lr_lambda)


def make_clusters(n, seed):
    """Hashed features of a claim document and of its supporting cluster; false claims contradict the cluster."""
    shared = np.random.default_rng(31)
    topic_vec = shared.normal(0, 1, (TOPICS, FEATURES))
    stance_map = shared.normal(0, 1, (TOPICS, FEATURES))
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, TOPICS, n)
    label = np.arange(n) % 2
    rng.shuffle(label)
    stance = rng.choice([-1.0, 1.0], n)
    claim_stance = np.where(label == 1, stance, -stance)
    claim = topic_vec[topic] + claim_stance[:, None] * stance_map[topic] + rng.normal(0, 0.8, (n, FEATURES))
    cluster = topic_vec[topic] + stance[:, None] * stance_map[topic] + rng.normal(0, 0.5, (n, FEATURES))
    return claim.astype(np.float32), cluster.astype(np.float32), topic, label


def build_datasets(n_train, n_dev, seed):
    train, dev = make_clusters(n_train, seed), make_clusters(n_dev, seed + 1)
    stats = [(train[k].mean(0), train[k].std(0)) for k in (0, 1)]

    def wrap(data):
        tensors = [torch.from_numpy((data[k] - stats[k][0]) / stats[k][1]) for k in (0, 1)]
        return TensorDataset(*tensors, torch.from_numpy(data[2]), torch.from_numpy(data[3]))

    return wrap(train), wrap(dev)


class CrossDocModel(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.claim = nn.Sequential(nn.Linear(FEATURES, dim), nn.GELU(), nn.Linear(dim, dim))
        self.cluster = nn.Sequential(nn.Linear(FEATURES, dim), nn.GELU(), nn.Linear(dim, dim))
        self.topic = nn.Linear(dim, TOPICS)
        self.verdict = nn.Sequential(nn.Linear(3 * dim, dim), nn.GELU(), nn.Linear(dim, 2))

    def forward(self, claim, cluster):
        a, b = self.claim(claim), self.cluster(cluster)
        return self.verdict(torch.cat([a, b, a * b], dim=1)), self.topic(b)


def compute_loss(model, claim, cluster, topic, label):
    verdict, topic_logits = model(claim, cluster)
    return F.cross_entropy(verdict, label) + 0.3 * F.cross_entropy(topic_logits, topic), verdict


@torch.no_grad()
def evaluate(model, dataloader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for claim, cluster, topic, label in dataloader:
        value, verdict = compute_loss(model, claim, cluster, topic, label)
        loss += value.item() * len(label)
        right += (verdict.argmax(1) == label).sum().item()
        n += len(label)
    return loss / n, right / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-epochs", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--warmup-ratio", type=float, default=0.01)
    parser.add_argument("--train-size", type=int, default=1920)
    parser.add_argument("--seed", type=int, default=2022)
    parser.add_argument("--save", default="cross_doc.pt")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set, dev_set = build_datasets(args.train_size, 384, args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    dataloader_train = DataLoader(train_set, args.batch_size, shuffle=True, generator=generator)
    dataloader_dev = DataLoader(dev_set, args.batch_size)
    model = CrossDocModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    num_training_steps = args.num_epochs * len(dataloader_train)
    num_warmup_steps = int(args.warmup_ratio * num_training_steps)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_training_steps, num_warmup_steps)

    first = 0
    if os.path.exists(args.save):
        saved = torch.load(args.save)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        generator.set_state(saved["generator"])
        torch.set_rng_state(saved["rng"])
        first = saved["epoch"] + 1

    for epoch in range(first, args.num_epochs):
        model.train()
        total = 0.0
        for claim, cluster, topic, label in dataloader_train:
            loss, _ = compute_loss(model, claim, cluster, topic, label)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item()
        dev_loss, dev_acc = evaluate(model, dataloader_dev)
        print(f"epoch {epoch} loss {total / len(dataloader_train):.4f} dev {dev_loss:.4f} acc {dev_acc:.3f} "
              f"lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.save)


if __name__ == "__main__":
    main()
