"""Word vectors by continuous bag of words, with the backward pass written by hand.

The text is the documentation and the comments of Python's standard library.
"""
import argparse
import io
import os
import random
import re
import sysconfig
import tokenize
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F

MODULES = """abc argparse ast asyncore base64 bdb bisect bz2 calendar cmd code codecs collections/__init__ configparser
contextlib copy csv dataclasses datetime decimal difflib dis doctest email/message enum fileinput fnmatch fractions
ftplib functools gettext getpass glob graphlib gzip hashlib heapq hmac html/parser http/client http/cookies
http/server imaplib imp inspect ipaddress json/decoder json/encoder linecache locale logging/__init__
logging/handlers lzma mailbox mimetypes modulefinder multiprocessing/pool netrc nntplib numbers optparse os pathlib
pdb pickle pickletools platform plistlib poplib posixpath pprint profile pstats pyclbr pydoc queue random re
sched secrets selectors shelve shlex shutil smtplib socket socketserver sqlite3/dbapi2 ssl statistics string
stringprep subprocess tarfile tempfile textwrap threading timeit token tokenize trace traceback turtle types
typing unittest/case unittest/mock urllib/parse urllib/request uuid warnings wave weakref webbrowser
xml/dom/minidom xmlrpc/client zipfile zoneinfo/_zoneinfo""".split()


def module_words(path):
    """Words of the strings and comments of one source file."""
    with open(path, "rb") as f:
        source = f.read()
    words = []
    try:
        for tok in tokenize.tokenize(io.BytesIO(source).readline):
            if tok.type in (tokenize.COMMENT, tokenize.STRING) and len(tok.string) > 20:
                words += re.findall(r"[a-z]+", tok.string.lower())
    except (tokenize.TokenError, SyntaxError):
        pass
    return words


def load_corpus(vocab_size):
    root = sysconfig.get_paths()["stdlib"]
    docs = []
    for name in MODULES:
        path = os.path.join(root, name + ".py")
        if os.path.exists(path):
            docs.append(module_words(path))
    counts = Counter(w for doc in docs for w in doc)
    vocab = [w for w, _ in sorted(counts.items(), key=lambda wc: (-wc[1], wc[0]))[:vocab_size]]
    word2ind = {w: i for i, w in enumerate(vocab)}
    return [[word2ind[w] for w in doc if w in word2ind] for doc in docs], vocab


def windows(docs, half):
    """Context ids (n, 2 * half) and centre ids (n,)."""
    contexts, centres = [], []
    for doc in docs:
        for i in range(half, len(doc) - half):
            contexts.append(doc[i - half:i] + doc[i + 1:i + half + 1])
            centres.append(doc[i])
    return torch.tensor(contexts), torch.tensor(centres)


def one_hot_columns(contexts, centres, size):
    """x: averaged one-hot context vectors, y: one-hot centre words, one column per example."""
    x = F.one_hot(contexts, size).float().mean(1).t()
    y = F.one_hot(centres, size).float().t()
    return x, y


def forward_prop(x, W1, W2, b1, b2):
    z1 = W1 @ x + b1
    h = torch.relu(z1)
    z = W2 @ h + b2
    return z1, h, z


def compute_cost(y, z):
    return -(y * torch.log_softmax(z, dim=0)).sum() / y.shape[1]


def back_prop(x, yhat, y, h, z1, W2, batch_size):
    l1 = W2.t() @ (yhat - y)
    l1 = l1 * (z1 > 0)
    grad_W1 = (1 / batch_size) * l1 @ x.t()
    grad_W2 = (1 / batch_size) * (yhat - y) @ h.t()
    grad_b1 = torch.sum((1 / batch_size) * l1, dim=1, keepdim=True)
    grad_b2 = torch.sum((1 / batch_size) * (yhat - y), dim=1, keepdim=True)
    return grad_W1, grad_W2, grad_b1, grad_b2


class CBOWCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx, W1, W2, b1, b2, x, y):
        z1, h, z = forward_prop(x, W1, W2, b1, b2)
        ctx.save_for_backward(x, y, z1, h, torch.softmax(z, dim=0), W2)
        return compute_cost(y, z)

    @staticmethod
    def backward(ctx, grad_cost):
        x, y, z1, h, yhat, W2 = ctx.saved_tensors
        grads = back_prop(x, yhat, y, h, z1, W2, x.shape[1])
        return tuple(grad_cost * g for g in grads) + (None, None)


def initialize_model(N, V, generator):
    W1 = torch.randn(N, V, generator=generator) * 0.3
    W2 = torch.randn(V, N, generator=generator) * 0.05
    b1 = torch.zeros(N, 1)
    b2 = torch.zeros(V, 1)
    return [p.requires_grad_() for p in (W1, W2, b1, b2)]


@torch.no_grad()
def evaluate(params, contexts, centres, V, batch_size=1000):
    cost = 0.0
    for i in range(0, len(centres), batch_size):
        x, y = one_hot_columns(contexts[i:i + batch_size], centres[i:i + batch_size], V)
        cost += compute_cost(y, forward_prop(x, *params)[2]).item() * x.shape[1]
    return cost / len(centres)


@torch.no_grad()
def neighbours(params, vocab, words=("file", "returns", "thread", "true"), top=4):
    emb = F.normalize((params[0].t() + params[1]) / 2, dim=1)
    for w in words:
        if w in vocab:
            sims = emb @ emb[vocab.index(w)]
            print("   ", w, "->", ", ".join(vocab[i] for i in sims.topk(top + 1).indices.tolist()[1:]))


def gradient_descent(args):
    generator = torch.Generator().manual_seed(args.seed)
    docs, vocab = load_corpus(args.vocab)
    V = len(vocab)
    order = torch.randperm(len(docs), generator=generator).tolist()
    n_valid = max(1, len(docs) // 12)
    train_x, train_y = windows([docs[i] for i in order[n_valid:]], args.half_window)
    valid_x, valid_y = windows([docs[i] for i in order[:n_valid]], args.half_window)
    print(f"{len(docs)} modules, vocabulary {V}, windows {len(train_y)} / {len(valid_y)}")

    params = initialize_model(args.hidden, V, generator)
    optimizer = torch.optim.Adam(params, lr=args.alpha)
    os.makedirs(args.out, exist_ok=True)
    best, it = float("inf"), 0
    for epoch in range(args.epochs):
        perm = torch.randperm(len(train_y), generator=generator)
        for i in range(0, len(perm) - args.batch_size + 1, args.batch_size):
            idx = perm[i:i + args.batch_size]
            x, y = one_hot_columns(train_x[idx], train_y[idx], V)
            cost = CBOWCost.apply(*params, x, y)
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
            it += 1
            if it % args.print_every == 0:
                print(f"iters: {it} cost: {cost.item():.5f}", flush=True)
        valid_cost = evaluate(params, valid_x, valid_y, V)
        print(f"epoch {epoch} valid cost: {valid_cost:.5f}", flush=True)
        neighbours(params, vocab)
        if valid_cost < best:
            best = valid_cost
            torch.save({"params": [p.detach().clone() for p in params], "vocab": vocab},
                       os.path.join(args.out, "cbow.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=2500)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--half_window", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--alpha", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--print_every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=282)
    parser.add_argument("--out", default="runs/cbow")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    gradient_descent(args)
