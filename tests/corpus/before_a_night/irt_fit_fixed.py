"""
Variational two-parameter IRT model: abilities of subjects, difficulty and
discrimination of items, from a jsonlines file of graded responses.

    python fit.py --seed 42 --epochs 1500
"""
import argparse
import json
import math
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F


def write_example_data(path, n_subjects, n_items, seed=2023):
    """Responses of language models ("subjects") to questions ("items"), with gaps."""
    rng = np.random.default_rng(seed)
    families = ["falcon", "gemini", "hermes", "ibis", "jay", "kestrel", "lark", "merlin"]
    topics = ["algebra", "biology", "chess", "drama", "ethics", "french", "geology", "history"]
    ability = rng.normal(0, 1, n_subjects)
    difficulty = rng.normal(0, 1.2, n_items)
    slope = np.exp(rng.normal(0, 0.35, n_items))
    with open(path, "w") as f:
        for s in range(n_subjects):
            name = f"{families[s % len(families)]}-{s // len(families)}"
            asked = np.flatnonzero(rng.random(n_items) < 0.6)
            p = 1 / (1 + np.exp(-slope[asked] * (ability[s] - difficulty[asked])))
            correct = (rng.random(len(asked)) < p).astype(int)
            responses = {f"{topics[i % len(topics)]}_{i // len(topics)}": int(c) for i, c in zip(asked, correct)}
            f.write(json.dumps({"subject_id": name, "responses": responses}) + "\n")


class Dataset:
    """Maps the ids of the file to indices and keeps the observations as flat lists."""

    def __init__(self, item_ids, subject_ids):
        self.item_ids = item_ids
        self.subject_ids = subject_ids
        self.item_id_to_ix = {item_id: ix for ix, item_id in enumerate(item_ids)}
        self.ix_to_item_id = {ix: item_id for item_id, ix in self.item_id_to_ix.items()}
        self.subject_id_to_ix = {subject_id: ix for ix, subject_id in enumerate(subject_ids)}
        self.ix_to_subject_id = {ix: subject_id for subject_id, ix in self.subject_id_to_ix.items()}
        self.observation_subjects, self.observation_items, self.observations = [], [], []

    @classmethod
    def from_jsonlines(cls, data_path):
        rows = [json.loads(line) for line in open(data_path)]
        item_ids, subject_ids = {}, {}          # used as ordered sets
        for row in rows:
            subject_ids[row["subject_id"]] = None
            item_ids.update(dict.fromkeys(row["responses"]))
        dataset = cls(item_ids, subject_ids)
        for row in rows:
            for item_id, correct in row["responses"].items():
                dataset.observation_subjects.append(dataset.subject_id_to_ix[row["subject_id"]])
                dataset.observation_items.append(dataset.item_id_to_ix[item_id])
                dataset.observations.append(correct)
        return dataset


class MeanField(nn.Module):
    def __init__(self, n, loc_init=0.3):
        super().__init__()
        self.loc = nn.Parameter(loc_init * torch.randn(n))
        self.log_scale = nn.Parameter(torch.full((n,), -1.0))

    def posterior(self):
        return Normal(self.loc, self.log_scale.exp())


class TwoParamLog(nn.Module):
    def __init__(self, n_subjects, n_items):
        super().__init__()
        self.ability = MeanField(n_subjects)
        self.difficulty = MeanField(n_items)
        self.log_disc = MeanField(n_items, loc_init=0.05)
        # hierarchical prior scales
        self.log_prior_scale = nn.Parameter(torch.zeros(2))

    def kl(self):
        scale = self.log_prior_scale.exp()
        return (kl_divergence(self.ability.posterior(), Normal(0.0, scale[0])).sum()
                + kl_divergence(self.difficulty.posterior(), Normal(0.0, scale[1])).sum()
                + kl_divergence(self.log_disc.posterior(), Normal(0.0, 0.5)).sum())

    def elbo(self, subjects, items, y, n_total, samples=4):
        log_lik = 0.0
        for _ in range(samples):
            ability = self.ability.posterior().rsample()[subjects]
            difficulty = self.difficulty.posterior().rsample()[items]
            disc = self.log_disc.posterior().rsample()[items].exp()
            logits = disc * (ability - difficulty)
            log_lik = log_lik - F.binary_cross_entropy_with_logits(logits, y)
        return n_total * log_lik / samples - self.kl()

    @torch.no_grad()
    def predict(self, subjects, items):
        return torch.sigmoid(self.log_disc.loc[items].exp() * (self.ability.loc[subjects] - self.difficulty.loc[items]))


def set_seeds(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)


def save(path, model, dataset, optimizer, epoch):
    loc = {
        "epoch": epoch,
        "ability": {dataset.ix_to_subject_id[i]: v for i, v in enumerate(model.ability.loc.tolist())},
        "diff": {dataset.ix_to_item_id[i]: v for i, v in enumerate(model.difficulty.loc.tolist())},
        "disc": {dataset.ix_to_item_id[i]: math.exp(v) for i, v in enumerate(model.log_disc.loc.tolist())},
    }
    (path / "parameters.json").write_text(json.dumps(loc))
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path / "checkpoint.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-path", type=Path, default=None)
    parser.add_argument("--output-dir", type=Path, default=Path("irt_output"))
    parser.add_argument("--subjects", type=int, default=400)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=1500)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--log-every", type=int, default=25)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    os.makedirs(args.output_dir, exist_ok=True)
    set_seeds(args.seed)
    if args.data_path is None:
        args.data_path = args.output_dir / "responses.jsonlines"
        write_example_data(args.data_path, args.subjects, args.items)
    dataset = Dataset.from_jsonlines(args.data_path)
    subjects = torch.tensor(dataset.observation_subjects)
    items = torch.tensor(dataset.observation_items)
    y = torch.tensor(dataset.observations, dtype=torch.float32)

    order = torch.randperm(len(y))
    held_out, train = order[: len(y) // 20], order[len(y) // 20:]
    model = TwoParamLog(len(dataset.subject_ids), len(dataset.item_ids))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.02 ** (1 / args.epochs))
    print(f"{len(dataset.subject_ids)} subjects, {len(dataset.item_ids)} items, {len(train)} training responses")

    for epoch in range(args.epochs):
        t0, losses = time.time(), []
        for step, idx in enumerate(train[torch.randperm(len(train))].split(args.batch_size)):
            loss = -model.elbo(subjects[idx], items[idx], y[idx], len(train))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() / len(train))
            if step % args.log_every == 0:
                print(f"epoch {epoch} step {step} loss {losses[-1]:.6f}", flush=True)
        scheduler.step()
        p = model.predict(subjects[held_out], items[held_out])
        nll = F.binary_cross_entropy(p, y[held_out]).item()
        acc = ((p > 0.5).float() == y[held_out]).float().mean().item()
        print(f"epoch {epoch}: loss {np.mean(losses):.6f} held-out nll {nll:.6f} acc {acc:.4f} ({time.time() - t0:.1f}s)", flush=True)
        save(args.output_dir, model, dataset, optimizer, epoch)


if __name__ == "__main__":
    main()
