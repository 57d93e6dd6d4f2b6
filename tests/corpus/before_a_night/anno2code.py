"""Code generation from English annotations: attention seq2seq."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NAMES = ("x y z n count total result value item node key data path line name size index offset buf width height "
         "user config token parser model form field query request response cache stack queue depth start end "
         "step limit mode flag text words lines rows cols matrix graph edge weight price").split()
METHODS = "append pop split join strip lower upper close read write update get keys values items copy sort find".split()
MODULES = "os sys re json math random time string datetime socket".split()

TEMPLATES = [
    ("set {a} to {k}", "{a} = {k}"),
    ("assign the sum of {a} and {b} to {c}", "{c} = {a} + {b}"),
    ("substract {k} from {a}", "{a} -= {k}"),
    ("if {a} is greater than {k} , return {b}", "if {a} > {k} : return {b}"),
    ("if {a} is contained in {b} , do nothing", "if {a} in {b} : pass"),
    ("call the method {m} of {a} with argument {b}", "{a} . {m} ( {b} )"),
    ("call the method {m} of {a} , assign the result to {c}", "{c} = {a} . {m} ( )"),
    ("for every {a} in {b} , call the method {m} of {a}", "for {a} in {b} : {a} . {m} ( )"),
    ("return the {k} element of {a}", "return {a} [ {k} ]"),
    ("import module {i}", "import {i}"),
    ("from module {i} import {a} into default name space", "from {i} import {a}"),
    ("define the function {a} with argument {b} and {c}", "def {a} ( {b} , {c} ) :"),
    ("{a} is an empty list", "{a} = [ ]"),
    ("raise an exception with message {a}", "raise Exception ( {a} )"),
    ("while {a} is not equal to {k} , increment {a} by one", "while {a} != {k} : {a} += 1"),
]

PAD, SOS, EOS, UNK = range(4)


def make_pairs(n, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        anno, code = rng.choice(TEMPLATES)
        a, b, c = rng.sample(NAMES, 3)
        slots = dict(a=a, b=b, c=c, k=str(rng.randint(0, 40)), m=rng.choice(METHODS), i=rng.choice(MODULES))
        pairs.append((anno.format(**slots).split(), code.format(**slots).split()))
    return pairs


class Lang:
    def __init__(self, sequences):
        words = sorted({w for s in sequences for w in s})
        self.index2token = ["<pad>", "<sos>", "<eos>", "<unk>"] + words
        self.token2index = {w: i for i, w in enumerate(self.index2token)}

    def __len__(self):
        return len(self.index2token)

    def to_numeric(self, seq):
        return [self.token2index.get(w, UNK) for w in seq] + [EOS]


class PairDataset(Dataset):
    def __init__(self, pairs, anno_lang, code_lang):
        self.rows = [(anno_lang.to_numeric(a), code_lang.to_numeric(c)) for a, c in pairs]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    def pad(seqs):
        width = max(map(len, seqs))
        return torch.tensor([s + [PAD] * (width - len(s)) for s in seqs])
    return pad([r[0] for r in rows]), pad([r[1] for r in rows])


class Model(nn.Module):
    def __init__(self, n_anno, n_code, emb=64, hidden=128, p=0.2):
        super().__init__()
        self.src_emb = nn.Embedding(n_anno, emb, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(n_code, emb, padding_idx=PAD)
        self.enc = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.dec = nn.LSTM(emb, 2 * hidden, batch_first=True)
        self.att = nn.Linear(2 * hidden, 2 * hidden, bias=False)
        self.mix = nn.Linear(4 * hidden, 2 * hidden)
        self.out = nn.Linear(2 * hidden, n_code)
        self.drop = nn.Dropout(p)

    def forward(self, src, tgt):
        lengths = (src != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.drop(self.src_emb(src)), lengths, batch_first=True, enforce_sorted=False)
        memory, (h, c) = self.enc(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        state = (torch.cat([h[0], h[1]], -1)[None], torch.cat([c[0], c[1]], -1)[None])
        dec_in = tgt
        states, _ = self.dec(self.drop(self.tgt_emb(dec_in)), state)
        scores = self.att(states) @ memory.transpose(1, 2)
        scores = scores.masked_fill((src == PAD)[:, None], -1e9)
        context = scores.softmax(-1) @ memory
        mixed = torch.tanh(self.mix(torch.cat([states, context], -1)))
        return self.out(self.drop(mixed))


def loss_fn(logits, tgt):
    return F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, correct, n = 0.0, 0, 0
    for src, tgt in loader:
        logits = model(src, tgt)
        mask = tgt != PAD
        total += loss_fn(logits, tgt).item() * mask.sum().item()
        correct += ((logits.argmax(-1) == tgt) & mask).sum().item()
        n += mask.sum().item()
    return total / n, correct / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--num_epochs", type=int, default=60)
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--n_pairs", type=int, default=30000)
    ap.add_argument("--seed", type=int, default=42)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    pairs = make_pairs(args.n_pairs, args.seed)
    n_train = int(0.9 * len(pairs))
    anno_lang, code_lang = Lang([p[0] for p in pairs[:n_train]]), Lang([p[1] for p in pairs[:n_train]])
    train_loader = DataLoader(PairDataset(pairs[:n_train], anno_lang, code_lang), args.batch_size, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(PairDataset(pairs[n_train:], anno_lang, code_lang), 256, collate_fn=collate)
    print(f"anno vocab {len(anno_lang)}, code vocab {len(code_lang)}, {len(train_loader)} batches")

    model = Model(len(anno_lang), len(code_lang))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    best = float("inf")
    for epoch in range(1, args.num_epochs + 1):
        model.train()
        t0, running = time.time(), 0.0
        for it, (src, tgt) in enumerate(train_loader, 1):
            loss = loss_fn(model(src, tgt), tgt)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
            if it % 20 == 0:
                print(f"Epoch {epoch:3d} | Batch {it:4d}/{len(train_loader)} | CE {running / 20:.4f} | "
                      f"{1000 * (time.time() - t0) / it:.0f} ms", flush=True)
                running = 0.0
        dev_loss, dev_acc = evaluate(model, dev_loader)
        print(f"Epoch {epoch:3d} | dev CE {dev_loss:.4f} | dev token acc {dev_acc:.4f}", flush=True)
        if dev_loss < best:
            best = dev_loss
            torch.save(model.state_dict(), "cg_model.pt")


if __name__ == "__main__":
    main()
