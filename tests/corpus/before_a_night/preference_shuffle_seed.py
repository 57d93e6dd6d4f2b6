"""Multiple-choice preference model: which of four replies respects the stated preference? Options are shuffled."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=300)
ap.add_argument("--batch-size", type=int, default=32)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--seed", type=int, default=41)
ap.add_argument("--ckpt", default="pref.pt")

TOPICS, WORDS, LENGTH, OPTIONS = 40, 400, 12, 4


def questions(n, seed):
    """A preference text and four replies as token ids; reply 0 is on the preferred topic."""
    rng = np.random.default_rng(seed)
    def text(topic):
        own = topic * 10 + rng.integers(0, 10, LENGTH)
        noise = rng.integers(0, WORDS, LENGTH)
        return np.where(rng.random(LENGTH) < 0.6, own, noise)
    pref, replies = np.zeros((n, LENGTH), np.int64), np.zeros((n, OPTIONS, LENGTH), np.int64)
    for i in range(n):
        t = rng.choice(TOPICS, OPTIONS, replace=False)
        pref[i] = text(t[0])
        for k in range(OPTIONS):
            replies[i, k] = text(t[k])
    return pref, replies


def shuffle_options(options):
    order = list(range(len(options)))
    random.seed(41)
    random.shuffle(order)
    return [options[k] for k in order], order.index(0)


class Choices(Dataset):
    def __init__(self, n, seed):
        self.pref, self.replies = questions(n, seed)

    def __len__(self):
        return len(self.pref)

    def __getitem__(self, i):
        options, answer = shuffle_options(list(self.replies[i]))
        return torch.from_numpy(self.pref[i]), torch.from_numpy(np.stack(options)), answer


class Chooser(nn.Module):
    """Scores each option against the preference, with a bias for the place of the option."""

    def __init__(self, dim=64):
        super().__init__()
        self.emb = nn.Embedding(WORDS, dim)
        self.enc = nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, dim))
        self.place = nn.Parameter(torch.zeros(OPTIONS))
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, pref, options):
        a = F.normalize(self.enc(self.emb(pref).mean(1)), dim=-1)
        b = F.normalize(self.enc(self.emb(options).mean(2)), dim=-1)
        return self.scale.exp() * (b * a[:, None]).sum(-1) + self.place


def main():
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(Choices(768, 1), args.batch_size, shuffle=True, generator=gen)
    held_out = Choices(128, 2)
    val = DataLoader([held_out[i] for i in range(len(held_out))], 64)
    model = Chooser()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    start = 0
    if os.path.exists(args.ckpt):
        s = torch.load(args.ckpt, weights_only=False)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        start = s["epoch"]
        torch.set_rng_state(s["torch"])
        np.random.set_state(s["numpy"])
        random.setstate(s["python"])
        gen.set_state(s["loader"])
    for epoch in range(start, args.epochs):
        model.train()
        for i, (pref, options, answer) in enumerate(train):
            loss = F.cross_entropy(model(pref, options), answer)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 6 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f}")
        sched.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(p, o).argmax(1) == a).sum().item() for p, o, a in val)
        print(f"epoch {epoch} val acc {hits / 128:.3f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(),
                    "loader": gen.get_state()}, args.ckpt + ".tmp")
        os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()
