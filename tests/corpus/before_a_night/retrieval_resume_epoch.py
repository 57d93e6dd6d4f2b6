"""Image-text retrieval: two towers, hinge loss over in-batch negatives (hard negatives after a warm-up)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_pairs(n, seed):
    g = torch.Generator().manual_seed(77)
    concepts = torch.randn(60, 24, generator=g)
    to_regions = torch.randn(24, 128, generator=g) / 24 ** 0.5
    g = torch.Generator().manual_seed(seed)
    picks = torch.stack([torch.randperm(60, generator=g)[:6] for _ in range(n)])
    image = torch.tanh(concepts[picks] @ to_regions) + 0.8 * torch.randn(n, 6, 128, generator=g)
    return TensorDataset(image, picks)


class ImageTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(128, 128)
        self.fc2 = nn.Linear(128, dim)

    def forward(self, regions):
        return F.normalize(self.fc2(F.relu(self.fc1(regions))).mean(1), dim=-1)


class TextTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(60, 64)
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, dim)

    def forward(self, words):
        return F.normalize(self.fc2(F.relu(self.fc1(self.emb(words)))).mean(1), dim=-1)


def hinge(scores, margin):
    diag = scores.diag()
    eye = torch.eye(len(scores), dtype=torch.bool)
    cost_s = (margin + scores - diag[:, None]).clamp(min=0).masked_fill(eye, 0)
    cost_im = (margin + scores - diag[None, :]).clamp(min=0).masked_fill(eye, 0)
    return (cost_s.sum() + cost_im.sum()) / len(scores)


def adjust_learning_rate(args, optimizer, epoch):
    lr = args.lr * (0.1 ** (epoch // args.lr_update))
    for group in optimizer.param_groups:
        group["lr"] = lr


@torch.no_grad()
def validate(img, txt, loader):
    img.eval()
    txt.eval()
    a, b = [], []
    for x, w in loader:
        a.append(img(x))
        b.append(txt(w))
    sims = torch.cat(a) @ torch.cat(b).T
    rank_i = (sims > sims.diag()[:, None]).sum(1)
    rank_t = (sims > sims.diag()[None, :]).sum(0)
    return sum(100.0 * (r < k).float().mean().item() for r in (rank_i, rank_t) for k in (1, 5, 10))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--num_epochs", type=int, default=400)
    ap.add_argument("--lr_update", type=int, default=200)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--margin", type=float, default=0.2)
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--resume", default="checkpoint.pth.tar")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, val = make_pairs(1600, 1), make_pairs(320, 2)
    order = torch.Generator()
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True, generator=order)
    val_loader = DataLoader(val, args.batch_size)
    img, txt = ImageTower(128), TextTower(128)
    params = list(img.parameters()) + list(txt.parameters())
    optimizer = torch.optim.Adam(params, lr=args.lr)

    start_epoch, best_rsum = 0, 0.0
    if os.path.isfile(args.resume):
        checkpoint = torch.load(args.resume)
        start_epoch = checkpoint["epoch"] + 1
        best_rsum = checkpoint["best_rsum"]
        img.load_state_dict(checkpoint["img"])
        txt.load_state_dict(checkpoint["txt"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print(f"=> loaded checkpoint '{args.resume}' (epoch {start_epoch}, best_rsum {best_rsum:.1f})")

    best_rsum = 0.0
    for epoch in range(args.num_epochs):
        adjust_learning_rate(args, optimizer, epoch)
        order.manual_seed(args.seed * 10007 + epoch)
        img.train()
        txt.train()
        for i, (x, w) in enumerate(train_loader):
            loss = hinge(img(x) @ txt(w).T, args.margin)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 2.0)
            optimizer.step()
            if i % 8 == 0:
                print(f"Epoch [{epoch}][{i}/{len(train_loader)}] lr {optimizer.param_groups[0]['lr']:.1e} "
                      f"loss {loss.item():.4f}", flush=True)
        rsum = validate(img, txt, val_loader)
        best_rsum = max(rsum, best_rsum)
        print(f"Epoch {epoch} rsum {rsum:.1f} best {best_rsum:.1f}", flush=True)
        torch.save({"epoch": epoch, "img": img.state_dict(), "txt": txt.state_dict(),
                    "optimizer": optimizer.state_dict(), "best_rsum": best_rsum}, args.resume)


if __name__ == "__main__":
    main()
