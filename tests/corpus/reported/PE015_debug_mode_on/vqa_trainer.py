"""Visual question answering on rendered grids with a single-stream transformer.

The picture is a 5x5 grid of coloured shapes, the question is a short sentence, the answer one
word ("what colour is the star ?", "how many red things ?", "is there a blue circle ?").
"""
import argparse
import logging
import math
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger("vqa")

COLOURS = ["red", "green", "blue", "yellow"]
SHAPES = ["circle", "square", "star", "cross"]
WORDS = ["<pad>", "<cls>", "what", "how", "is", "many", "colour", "the", "there", "a", "things", "?"] + COLOURS + SHAPES
ANSWERS = ["yes", "no", "0", "1", "2", "3", "4"] + COLOURS
WORD_ID = {w: i for i, w in enumerate(WORDS)}
ANSWER_ID = {a: i for i, a in enumerate(ANSWERS)}
MAX_LEN = 9


def make_example(rng, basis):
    n = rng.integers(3, 7)
    cells = rng.choice(25, size=n, replace=False)
    colours, shapes = rng.integers(0, 4, n), rng.integers(0, 4, n)
    feats = 0.3 * rng.standard_normal((25, basis.shape[1])).astype(np.float32)
    for cell, c, s in zip(cells, colours, shapes):
        feats[cell] += basis[c] + basis[4 + s]
    kind = rng.integers(0, 3)
    if kind == 0:
        single = [i for i in range(n) if (shapes == shapes[i]).sum() == 1]
        if not single:
            kind = 1
        else:
            i = single[rng.integers(len(single))]
            question = f"what colour is the {SHAPES[shapes[i]]} ?"
            answer = COLOURS[colours[i]]
    if kind == 1:
        c = rng.integers(0, 4)
        question = f"how many {COLOURS[c]} things ?"
        answer = str(min(4, int((colours == c).sum())))
    elif kind == 2:
        if rng.random() < 0.5:
            i = rng.integers(n)
            c, s = colours[i], shapes[i]
        else:
            c, s = rng.integers(0, 4, 2)
        question = f"is there a {COLOURS[c]} {SHAPES[s]} ?"
        answer = "yes" if ((colours == c) & (shapes == s)).any() else "no"
    tokens = [WORD_ID["<cls>"]] + [WORD_ID[w] for w in question.split()]
    tokens = tokens + [0] * (MAX_LEN - len(tokens))
    return feats, np.array(tokens), ANSWER_ID[answer]


class GridVQA(torch.utils.data.Dataset):
    def __init__(self, n, feat_dim, seed):
        basis = np.random.default_rng(0).standard_normal((8, feat_dim)).astype(np.float32)
        rng = np.random.default_rng(seed)
        rows = [make_example(rng, basis) for _ in range(n)]
        self.feats = torch.from_numpy(np.stack([r[0] for r in rows]))
        self.tokens = torch.from_numpy(np.stack([r[1] for r in rows]))
        self.answers = torch.tensor([r[2] for r in rows])

    def __len__(self):
        return len(self.answers)

    def __getitem__(self, i):
        return {"image_feature": self.feats[i], "input_ids": self.tokens[i], "targets": self.answers[i]}


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads) + bias
        attn = scores.softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.dropout(self.proj(out))
        return x + self.dropout(self.mlp(self.norm2(x)))


class VisualBERT(nn.Module):
    def __init__(self, args):
        super().__init__()
        d = args.dim
        self.word = nn.Embedding(len(WORDS), d, padding_idx=0)
        self.position = nn.Parameter(0.02 * torch.randn(MAX_LEN, d))
        self.visual = nn.Linear(args.feat_dim, d)
        self.segment = nn.Parameter(0.02 * torch.randn(2, d))
        self.blocks = nn.ModuleList([Block(d, args.heads, args.dropout) for _ in range(args.layers)])
        self.norm = nn.LayerNorm(d)
        self.classifier = nn.Linear(d, len(ANSWERS))

    def forward(self, sample):
        ids = sample["input_ids"]
        text = self.word(ids) + self.position + self.segment[0]
        image = self.visual(sample["image_feature"]) + self.segment[1]
        x = torch.cat([text, image], dim=1)
        mask = torch.cat([ids != 0, torch.ones(image.shape[:2], dtype=torch.bool)], dim=1)
        bias = torch.zeros(mask.shape).masked_fill(~mask, -1e4)[:, None, None, :]
        for block in self.blocks:
            x = block(x, bias)
        return self.classifier(self.norm(x[:, 0]))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.load_datasets()
        self.load_model()
        self.load_optimizer()
        self.init_debug()

    def load_datasets(self):
        a = self.args
        self.train_loader = torch.utils.data.DataLoader(GridVQA(a.n_train, a.feat_dim, 1), a.batch_size, shuffle=True, drop_last=True)
        self.val_loader = torch.utils.data.DataLoader(GridVQA(a.n_val, a.feat_dim, 2), 128)

    def load_model(self):
        self.model = VisualBERT(self.args)
        logger.info("%d parameters", sum(p.numel() for p in self.model.parameters()))

    def load_optimizer(self):
        decay = [p for p in self.model.parameters() if p.dim() > 1]
        rest = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}],
                                           lr=self.args.lr)
        warmup, total = self.args.warmup, self.args.max_updates
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: min((s + 1) / warmup, max(0.02, (total - s) / (total - warmup))))

    def init_debug(self):
        torch.autograd.set_detect_anomaly(True)

    def train(self):
        self.model.train()
        updates, meter, start = 0, [], time.time()
        while updates < self.args.max_updates:
            for batch in self.train_loader:
                output = self.model(batch)
                loss = F.cross_entropy(output, batch["targets"])
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.lr_scheduler.step()
                updates += 1
                meter.append(loss.item())
                if updates % self.args.log_interval == 0:
                    ups = self.args.log_interval / (time.time() - start)
                    val_loss, val_acc = self.evaluate()
                    logger.info("updates %d/%d, train loss %.4f, val loss %.4f, val vqa_accuracy %.4f, ups %.1f",
                                updates, self.args.max_updates, sum(meter) / len(meter), val_loss, val_acc, ups)
                    meter, start = [], time.time()
                if updates >= self.args.max_updates:
                    break

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        loss = hits = n = 0
        for batch in self.val_loader:
            output = self.model(batch)
            loss += F.cross_entropy(output, batch["targets"], reduction="sum").item()
            hits += (output.argmax(1) == batch["targets"]).sum().item()
            n += len(output)
        self.model.train()
        return loss / n, hits / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--feat-dim", type=int, default=32)
    p.add_argument("--dropout", type=float, default=0.05)
    p.add_argument("--n-train", type=int, default=8000)
    p.add_argument("--n-val", type=int, default=512)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--max-updates", type=int, default=600)
    p.add_argument("--warmup", type=int, default=40)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-interval", type=int, default=100)
    p.add_argument("--seed", type=int, default=5)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    Trainer(args).train()


if __name__ == "__main__":
    main()
