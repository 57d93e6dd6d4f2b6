"""Character language model on a mixture of two sources (Python code and Python documentation).

The sources are cut into shards; an epoch samples shards with replacement, as one does with data that is too
large for whole passes.
"""
import argparse
import math
import os
import pydoc_data.topics
import random
import sysconfig
import time
from dataclasses import dataclass
from multiprocessing import Value

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)

CODE = ["argparse", "ast", "asyncio/base_events", "asyncio/tasks", "asyncio/streams", "calendar", "cmd", "codecs",
        "configparser", "csv", "dataclasses", "datetime", "difflib", "email/message", "email/utils", "enum",
        "fileinput", "fractions", "ftplib", "functools", "gettext", "heapq", "http/client", "http/server", "imaplib",
        "inspect", "ipaddress", "json/decoder", "json/encoder", "logging/__init__", "logging/config", "mailbox",
        "ntpath", "optparse", "os", "pathlib", "pdb", "pickle", "platform", "plistlib", "poplib", "posixpath",
        "pprint", "profile", "pstats", "random", "shelve", "shutil", "smtplib", "socket", "statistics", "string",
        "subprocess", "tarfile", "tempfile", "textwrap", "threading", "tokenize", "traceback", "turtle", "typing",
        "unittest/case", "unittest/mock", "urllib/parse", "urllib/request", "uuid", "weakref", "xml/dom/minidom",
        "zipfile"]

CHARS = "\n" + "".join(chr(c) for c in range(32, 127))
STOI = {c: i for i, c in enumerate(CHARS)}


def encode(text):
    return [STOI[c] for c in text if c in STOI]


def read_code():
    root = sysconfig.get_paths()["stdlib"]
    for name in CODE:
        path = os.path.join(root, name + ".py")
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="ignore") as f:
                yield f.read()


def read_docs():
    topics = pydoc_data.topics.topics
    for key in sorted(topics):
        yield topics[key]


def make_shards(documents, seq_len, samples_per_shard, limit):
    """Cut a stream of documents into shards of samples with one token more than seq_len."""
    tokens = []
    for text in documents:
        tokens.extend(encode(text))
    size = seq_len + 1
    samples = [tokens[i:i + size] for i in range(0, min(len(tokens), limit) - size, size)]
    random.Random(0).shuffle(samples)
    return [samples[i:i + samples_per_shard] for i in range(0, len(samples) - samples_per_shard, samples_per_shard)]


class SharedEpoch:
    def __init__(self, epoch: int = 0):
        self.shared_epoch = Value("i", epoch)

    def set_value(self, epoch):
        self.shared_epoch.value = epoch

    def get_value(self):
        return self.shared_epoch.value


class ResampledShards(IterableDataset):
    """Samples shards with replacement and shuffles their samples, seeded by the epoch. Yields batches."""

    def __init__(self, shards, batch_size, num_batches, seed, epoch):
        super().__init__()
        self.shards = shards
        self.batch_size = batch_size
        self.num_batches = num_batches
        self.seed = seed
        self.epoch = epoch

    def __iter__(self):
        rng = random.Random(self.seed + 1000 * self.epoch.get_value())
        need = self.batch_size * self.num_batches
        samples = []
        while len(samples) < need:
            samples.extend(rng.choice(self.shards))
        rng.shuffle(samples)
        for i in range(0, need, self.batch_size):
            yield torch.tensor(samples[i:i + self.batch_size])


class RandomMix(IterableDataset):
    """Takes the next batch from a random source until all of them are exhausted."""

    def __init__(self, datasets, probs):
        super().__init__()
        self.datasets, self.probs = datasets, probs

    def __iter__(self):
        sources, probs = [iter(d) for d in self.datasets], list(self.probs)
        while sources:
            k = random.choices(range(len(sources)), probs)[0]
            try:
                yield next(sources[k])
            except StopIteration:
                del sources[k], probs[k]


@dataclass
class DataInfo:
    dataloader: DataLoader
    num_batches: int
    shared_epoch: SharedEpoch

    def set_epoch(self, epoch):
        self.shared_epoch.set_value(epoch)


def get_train_data(sources, args, epoch=0):
    datasets = []
    shared_epoch = SharedEpoch(epoch=epoch)  # create a shared epoch store to sync epoch to dataloader worker proc
    for ii, shards in enumerate(sources):
        num_batches = int(args.train_num_batches * args.mix_weights[ii])
        datasets.append(ResampledShards(shards, args.batch_size, num_batches, args.seed + ii, shared_epoch))
    dataset = RandomMix(datasets, probs=args.mix_weights)
    dataloader = DataLoader(dataset, batch_size=None)
    return DataInfo(dataloader, sum(d.num_batches for d in datasets), shared_epoch)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.in_proj, self.out_proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.in_proj(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out_proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, seq_len, dim=96, layers=2, heads=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(seq_len, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm, self.output = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)
        nn.init.normal_(self.tok.weight, std=0.05)
        nn.init.normal_(self.pos.weight, std=0.05)

    def forward(self, x):
        h = self.tok(x) + self.pos.weight[:x.shape[1]]
        return self.output(self.norm(self.blocks(h)))


def lm_loss(model, batch):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def evaluate(model, shards, batch_size=64):
    model.eval()
    samples = [s for shard in shards for s in shard]
    losses = [lm_loss(model, torch.tensor(samples[i:i + batch_size])).item()
              for i in range(0, len(samples) - batch_size + 1, batch_size)]
    model.train()
    return sum(losses) / len(losses)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seq-len", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--epochs", type=int, default=9)
    p.add_argument("--train-num-batches", type=int, default=80, help="batches of one epoch")
    p.add_argument("--mix-weights", type=float, nargs=2, default=[0.5, 0.5])
    p.add_argument("--samples-per-shard", type=int, default=16)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--warmup", type=int, default=40)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    names = ["code", "docs"]
    shards = [make_shards(read_code(), args.seq_len, args.samples_per_shard, 900_000),
              make_shards(read_docs(), args.seq_len, args.samples_per_shard, 900_000)]
    val = [s[:24] for s in shards]
    train = [s[24:] for s in shards]
    print({n: f"{len(t)} shards" for n, t in zip(names, train)})

    data = get_train_data(train, args)
    model = CharLM(len(CHARS), args.seq_len)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0)
    total_steps = args.epochs * data.num_batches

    def schedule(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - args.warmup) / (total_steps - args.warmup)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, schedule)
    start, step = time.time(), 0
    for epoch in range(args.epochs):
        data.set_epoch(epoch)
        running = 0.0
        for batch in data.dataloader:
            loss = lm_loss(model, batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            scheduler.step()
            running += loss.item()
            step += 1
        scores = "  ".join(f"val {n} {evaluate(model, v):.4f}" for n, v in zip(names, val))
        print(f"epoch {epoch}  step {step}  train {running / data.num_batches:.4f}  {scores}  "
              f"{time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
