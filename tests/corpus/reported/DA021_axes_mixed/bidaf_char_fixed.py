"""Token role tagging of Python source lines with a char CNN + BiLSTM (the lower layers of BiDAF)."""
import argparse
import collections
import io
import keyword
import os
import random
import time
import tokenize

import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MODULES = ["argparse", "ast", "calendar", "configparser", "copy", "csv", "datetime", "difflib", "doctest", "enum",
           "fractions", "ftplib", "functools", "gettext", "heapq", "imaplib", "inspect", "ipaddress", "locale",
           "mailbox", "optparse", "pickle", "platform", "plistlib", "pprint", "random", "shutil", "smtplib",
           "socket", "statistics", "string", "subprocess", "tarfile", "textwrap", "threading", "trace", "turtle",
           "typing", "uuid", "zipfile"]
TAGS = ["op", "keyword", "number", "string", "func_def", "class_def", "call", "attr", "param", "name"]
PAD, UNK = 0, 1


def tag_line(toks):
    """toks: list of (type, string) of one logical line -> list of tags"""
    tags = []
    in_def = bool(toks) and toks[0][1] == "def"
    depth = 0
    for i, (typ, s) in enumerate(toks):
        prev = toks[i - 1][1] if i else ""
        nxt = toks[i + 1][1] if i + 1 < len(toks) else ""
        if typ == tokenize.OP:
            depth += (s in "([{") - (s in ")]}")
            tags.append("op")
        elif typ == tokenize.NUMBER:
            tags.append("number")
        elif typ == tokenize.STRING:
            tags.append("string")
        elif keyword.iskeyword(s):
            tags.append("keyword")
        elif prev == "def":
            tags.append("func_def")
        elif prev == "class":
            tags.append("class_def")
        elif in_def and depth == 1 and prev in ("(", ",", "*", "**"):
            tags.append("param")
        elif nxt == "(":
            tags.append("call")
        elif prev == ".":
            tags.append("attr")
        else:
            tags.append("name")
    return tags


def read_lines(max_tok=24):
    lib = os.path.dirname(os.__file__)
    lines = []
    for name in MODULES:
        path = os.path.join(lib, name + ".py")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as f:
            src = f.read()
        cur = []
        for t in tokenize.generate_tokens(io.StringIO(src).readline):
            if t.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
                cur.append((t.type, t.string))
            elif t.type == tokenize.NEWLINE:
                if 4 <= len(cur) <= max_tok:
                    lines.append(([s for _, s in cur], tag_line(cur)))
                cur = []
    return lines


class TagData(Dataset):
    def __init__(self, lines, word_vocab, char_vocab, max_word_len):
        self.items = []
        for words, tags in lines:
            w = torch.tensor([word_vocab.get(x, UNK) for x in words])
            c = torch.zeros(len(words), max_word_len, dtype=torch.long)
            for i, x in enumerate(words):
                ids = [char_vocab.get(ch, UNK) for ch in x[:max_word_len]]
                c[i, :len(ids)] = torch.tensor(ids)
            self.items.append((w, c, torch.tensor([TAGS.index(t) for t in tags])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    n = max(len(w) for w, _, _ in items)
    wl = items[0][1].size(1)
    w = torch.zeros(len(items), n, dtype=torch.long)
    c = torch.zeros(len(items), n, wl, dtype=torch.long)
    y = torch.full((len(items), n), -100)
    for i, (wi, ci, yi) in enumerate(items):
        w[i, :len(wi)], c[i, :len(wi)], y[i, :len(wi)] = wi, ci, yi
    return w, c, y


class Tagger(nn.Module):
    def __init__(self, args, n_words, n_chars):
        super().__init__()
        self.args = args
        self.char_emb = nn.Embedding(n_chars, args.char_dim, padding_idx=PAD)
        self.char_conv = nn.Conv2d(1, args.char_channel_size, (args.char_dim, args.char_channel_width))
        self.word_emb = nn.Embedding(n_words, args.word_dim, padding_idx=PAD)
        width = args.char_channel_size + args.word_dim
        self.highway_linear = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.highway_gate = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.context_LSTM = nn.LSTM(width, args.hidden_size, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * args.hidden_size, len(TAGS))
        self.dropout = nn.Dropout(p=args.dropout)

    def char_emb_layer(self, x):
        """
        :param x: (batch, seq_len, word_len)
        :return: (batch, seq_len, char_channel_size)
        """
        batch_size = x.size(0)
        word_len = x.size(2)
        # (batch, seq_len, word_len, char_dim)
        x = self.dropout(self.char_emb(x))
        # (batch * seq_len, 1, char_dim, word_len)
        x = x.transpose(2, 3).reshape(-1, self.args.char_dim, word_len).unsqueeze(1)
        # (batch * seq_len, char_channel_size, 1, conv_len) -> (batch * seq_len, char_channel_size, conv_len)
        x = F.relu(self.char_conv(x)).squeeze(2)
        # (batch * seq_len, char_channel_size)
        x = F.max_pool1d(x, x.size(2)).squeeze(2)
        return x.view(batch_size, -1, self.args.char_channel_size)

    def forward(self, words, chars):
        x = torch.cat([self.char_emb_layer(chars), self.dropout(self.word_emb(words))], dim=-1)
        for lin, gate in zip(self.highway_linear, self.highway_gate):
            h, g = torch.relu(lin(x)), torch.sigmoid(gate(x))
            x = g * h + (1 - g) * x
        x, _ = self.context_LSTM(x)
        return self.out(self.dropout(x))


def run_eval(model, loader, criterion):
    model.eval()
    loss, n, hit, tot = 0.0, 0, 0, 0
    with torch.no_grad():
        for w, c, y in loader:
            logits = model(w, c)
            loss += criterion(logits.view(-1, len(TAGS)), y.view(-1)).item()
            n += 1
            keep = y != -100
            hit += (logits.argmax(-1) == y)[keep].sum().item()
            tot += keep.sum().item()
    model.train()
    return loss / n, hit / tot


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--char-dim", default=8, type=int)
    parser.add_argument("--char-channel-width", default=5, type=int)
    parser.add_argument("--char-channel-size", default=64, type=int)
    parser.add_argument("--max-word-len", default=16, type=int)
    parser.add_argument("--word-dim", default=32, type=int)
    parser.add_argument("--hidden-size", default=64, type=int)
    parser.add_argument("--dropout", default=0.2, type=float)
    parser.add_argument("--epoch", default=3, type=int)
    parser.add_argument("--batch-size", default=40, type=int)
    parser.add_argument("--learning-rate", default=2e-3, type=float)
    parser.add_argument("--print-freq", default=50, type=int)
    parser.add_argument("--train-lines", default=7200, type=int)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(11)
    lines = read_lines()
    random.Random(11).shuffle(lines)
    dev, train = lines[:1000], lines[1000:1000 + args.train_lines]
    counts = collections.Counter(x for ws, _ in train for x in ws)
    # only frequent words get their own vector, the rest has to be read from its characters
    word_vocab = {x: i + 2 for i, (x, k) in enumerate(counts.most_common(400))}
    char_vocab = {ch: i + 2 for i, ch in enumerate(sorted({ch for ws, _ in train for x in ws for ch in x}))}
    print(f"lines: {len(train)} train, {len(dev)} dev; {len(word_vocab)} words, {len(char_vocab)} chars")

    make = lambda part: TagData(part, word_vocab, char_vocab, args.max_word_len)
    train_iter = DataLoader(make(train), batch_size=args.batch_size, shuffle=True, collate_fn=collate, drop_last=True)
    dev_iter = DataLoader(make(dev), batch_size=100, collate_fn=collate)

    model = Tagger(args, len(word_vocab) + 2, len(char_vocab) + 2)
    optimizer = optim.Adam(model.parameters(), lr=args.learning_rate)
    scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=args.epoch * len(train_iter))
    criterion = nn.CrossEntropyLoss(ignore_index=-100)

    start = time.time()
    model.train()
    step = 0
    for epoch in range(args.epoch):
        running = 0.0
        for w, c, y in train_iter:
            logits = model(w, c)
            loss = criterion(logits.view(-1, len(TAGS)), y.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
            step += 1
            if step % args.print_freq == 0:
                print(f"step {step} train loss {running / args.print_freq:.4f}")
                running = 0.0
        dev_loss, dev_acc = run_eval(model, dev_iter, criterion)
        print(f"epoch {epoch + 1}: dev loss {dev_loss:.4f} dev acc {dev_acc:.4f} ({time.time() - start:.0f}s)")


if __name__ == "__main__":
    main()
