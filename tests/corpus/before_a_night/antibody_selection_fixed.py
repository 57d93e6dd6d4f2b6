#!/usr/bin/env python
"""
Train a deep amino-acid selection model on parent-child pairs (PCPs).

The neutral model gives, for every site, the probability of each amino acid
under mutation alone. The network predicts per-site, per-amino-acid selection
factors; their product with the neutral probabilities explains the child.
"""
import argparse
import math
import pathlib
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split

AA = "ACDEFGHIKLMNPQRSTVWY"
AMBIG = len(AA)          # index of 'X'
SITE_LEN = 72
HYDROPHOBIC = torch.tensor([a in "AFILMVWY" for a in AA])


def make_neutral_matrix(rng):
    """Amino-acid substitution probabilities in the absence of selection."""
    reach = rng.random((20, 20)) < 0.45
    rates = rng.gamma(1.0, 1.0, (20, 20)) * reach
    np.fill_diagonal(rates, 0.0)
    rates = 0.16 * rates / rates.sum(1, keepdims=True)
    np.fill_diagonal(rates, 1.0 - rates.sum(1))
    return torch.tensor(rates, dtype=torch.float32)


def simulate_pcps(n, seed):
    """Simulate clonal families: germline-like parents, selected children."""
    rng = np.random.default_rng(seed)
    gen = torch.Generator().manual_seed(seed)
    neutral = make_neutral_matrix(rng)
    germlines = torch.from_numpy(rng.integers(0, 20, (40, SITE_LEN)))
    parents = germlines[torch.randint(0, 40, (n,), generator=gen)].clone()
    drift = torch.rand(parents.shape, generator=gen) < 0.15
    parents[drift] = torch.randint(0, 20, (int(drift.sum()),), generator=gen)

    region = torch.full((SITE_LEN,), 0.3)
    for start, stop in ((20, 28), (40, 48), (60, 70)):      # CDRs tolerate change
        region[start:stop] = 1.6
    left = torch.roll(parents, 1, dims=1)
    keep_class = HYDROPHOBIC[parents][..., None] == HYDROPHOBIC[None, None, :]
    near_gly = (left == AA.index("G"))[..., None]
    factors = region[None, :, None] * torch.where(keep_class, 1.3, 0.4) * torch.where(near_gly, 0.5, 1.0)
    probs = neutral[parents] * factors
    probs.scatter_(2, parents[..., None], 0.0)
    probs.scatter_(2, parents[..., None], (1.0 - probs.sum(2, keepdim=True)).clamp(min=0.05))
    children = torch.multinomial(probs.reshape(-1, 20), 1, generator=gen).reshape(parents.shape)

    # ancestral reconstruction leaves some parent sites undetermined
    unresolved = torch.rand(parents.shape, generator=gen) < 0.01
    parents[unresolved] = AMBIG
    return parents, children, neutral


class PCPDataset(Dataset):
    def __init__(self, parents, children, neutral):
        self.parents = parents
        self.children = children
        self.masks = parents != AMBIG
        padded = torch.cat([neutral, torch.zeros(1, 20)], dim=0)
        self.neutral_probs = padded[parents]
        self.subs_indicators = (parents != children).long()

    def __len__(self):
        return len(self.parents)

    def __getitem__(self, i):
        return {
            "aa_parents": self.parents[i],
            "aa_children": self.children[i],
            "neutral_probs": self.neutral_probs[i],
            "subs_indicator": self.subs_indicators[i],
            "mask": self.masks[i],
        }


class SelectionModel(nn.Module):
    def __init__(self, d_model=64, nhead=4, layers=3, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(21, d_model)
        self.pos = nn.Parameter(torch.zeros(1, SITE_LEN, d_model))
        nn.init.normal_(self.pos)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 4 * d_model, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, 20)

    def forward(self, aa, mask):
        x = self.embed(aa) + self.pos
        x = self.encoder(x, src_key_padding_mask=~mask)
        return F.logsigmoid(self.head(x)) + math.log(4.0)


def loss_of_batch(model, batch):
    aa_parents, mask = batch["aa_parents"], batch["mask"]
    indicator = batch["subs_indicator"]
    log_selection = model(aa_parents, mask)
    log_preds = torch.log(batch["neutral_probs"]) + log_selection
    # zero out the wildtype so that only substitutions are predicted
    wildtype = F.one_hot(aa_parents.clamp(max=19), 20).bool()
    log_preds = log_preds.masked_fill(wildtype, float("-inf"))

    csp_pos = log_preds.exp().sum(dim=2).clamp(1e-6, 1 - 1e-4)
    p, y = csp_pos[mask], indicator[mask].float()
    bce = -(y * torch.log(p) + (1 - y) * torch.log1p(-p)).mean()

    # conditional substitution probabilities at the sites that changed
    subs_mask = (indicator == 1) & mask
    cce = F.cross_entropy(log_preds[subs_mask], batch["aa_children"][subs_mask])
    return bce, cce


def run_epoch(model, loader, optimizer=None, log_every=25, epoch=0):
    train = optimizer is not None
    model.train(train)
    totals, count = torch.zeros(2), 0
    with torch.set_grad_enabled(train):
        for step, batch in enumerate(loader):
            bce, cce = loss_of_batch(model, batch)
            if train:
                loss = bce + 0.1 * cce
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                if step % log_every == 0:
                    print(f"epoch {epoch} step {step}/{len(loader)} bce {bce.item():.4f} cce {cce.item():.4f}", flush=True)
            totals += torch.stack([bce.detach(), cce.detach()])
            count += 1
    return (totals / count).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-pcps", type=int, default=9000)
    parser.add_argument("--epochs", type=int, default=250)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--min-lr", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("trained_models"))
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    args.out.mkdir(exist_ok=True, parents=True)

    dataset = PCPDataset(*simulate_pcps(args.n_pcps, args.seed))
    n_val = len(dataset) // 10
    train_set, val_set = random_split(dataset, [len(dataset) - n_val, n_val],
                                      generator=torch.Generator().manual_seed(args.seed))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)

    model = SelectionModel()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=args.lr * 0.5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=6, min_lr=args.min_lr)
    best = float("inf")
    for epoch in range(args.epochs):
        train_bce, train_cce = run_epoch(model, train_loader, optimizer, epoch=epoch)
        val_bce, val_cce = run_epoch(model, val_loader)
        val_loss = val_bce + 0.1 * val_cce
        scheduler.step(val_loss)
        print(f"epoch {epoch}: train bce {train_bce:.4f} cce {train_cce:.4f} | val bce {val_bce:.4f} cce {val_cce:.4f}"
              f" | lr {optimizer.param_groups[0]['lr']:.1e}", flush=True)
        if val_loss < best:
            best = val_loss
            torch.save({"epoch": epoch, "model": model.state_dict(), "val_loss": val_loss}, args.out / "dasm.pt")


if __name__ == "__main__":
    main()
