"""Next-line generation for rap lyrics: fully connected line encoder + LSTM decoder."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ["<pad>", "<s>", "</s>"]
TOPICS = {
    "street": "block corner concrete sirens avenue traffic pavement rooftop alley bus".split(),
    "money": "cash ledger paper hustle bank profit dollar payday wallet coin".split(),
    "studio": "mic beat booth sample vinyl record bass speaker mixer track".split(),
    "family": "mama brother home kitchen cousin daughter supper porch sister cradle".split(),
    "night": "moon neon midnight shadow curfew stars lamplight whisper dream dark".split(),
}
RHYMES = [
    "light fight sight tight bright height right flight".split(),
    "flow show glow know slow throw grow below".split(),
    "day way play stay gray sway today delay".split(),
    "mind find blind grind kind behind wind signed".split(),
    "heat street seat meet feet defeat repeat complete".split(),
    "time rhyme crime climb dime lime prime sublime".split(),
    "more door score floor shore before war roar".split(),
    "town crown down frown sound renown brown around".split(),
]
VERBS = "ride run spit count keep carry chase hear feel write break build call watch".split()
GLUE = "i we they still never in on with through under my the and for".split()


class Lyrics(Dataset):
    """Pairs of neighbouring lines: the second stays on the topic and rhymes with the first."""

    def __init__(self, n, max_len, stoi, seed):
        rng = random.Random(seed)
        topics = list(TOPICS)
        self.prev = torch.full((n, max_len), PAD)
        self.next = torch.full((n, max_len + 1), PAD)
        for i in range(n):
            topic, rhyme = rng.choice(topics), rng.choice(RHYMES)
            end_a, end_b = rng.sample(rhyme, 2)
            a = self.line(rng, topic, end_a)[-max_len:]
            b = self.line(rng, topic, end_b)[-(max_len - 1):]
            self.prev[i, :len(a)] = torch.tensor([stoi[w] for w in a])
            self.next[i, :len(b) + 2] = torch.tensor([BOS] + [stoi[w] for w in b] + [EOS])

    @staticmethod
    def line(rng, topic, end):
        words = [rng.choice(GLUE[:5]), rng.choice(VERBS), rng.choice(GLUE[5:10]), rng.choice(TOPICS[topic])]
        if rng.random() < 0.6:
            words += [rng.choice(GLUE[10:]), rng.choice(TOPICS[topic])]
        return words + [rng.choice(GLUE[5:]), end]

    def __len__(self):
        return len(self.prev)

    def __getitem__(self, i):
        return self.prev[i], self.next[i]


class LineModel(nn.Module):
    def __init__(self, vocab_size, max_len, emb_dim=96, hidden=192, latent=96, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_dim, padding_idx=PAD)
        self.encoder = nn.Sequential(
            nn.Linear(max_len * emb_dim, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, latent), nn.Tanh())
        self.init_state = nn.Linear(latent, 2 * hidden)
        self.decoder = nn.LSTM(emb_dim + latent, hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, vocab_size)

    def encode(self, prev):
        batch_size = prev.size(0)
        inputs = self.embedding(prev)
        return self.encoder(inputs.reshape(batch_size, -1))

    def forward(self, prev, words):
        code = self.encode(prev)
        h, c = self.init_state(code).unsqueeze(0).chunk(2, dim=2)
        emb = self.dropout(self.embedding(words))
        steps = torch.cat([emb, code.unsqueeze(1).expand(-1, words.size(1), -1)], dim=2)
        hidden, _ = self.decoder(steps, (h.contiguous(), c.contiguous()))
        return self.out(self.dropout(hidden))

    @torch.no_grad()
    def generate(self, prev, max_len):
        words = torch.full((prev.size(0), 1), BOS)
        for _ in range(max_len):
            logits = self(prev, words)[:, -1]
            words = torch.cat([words, logits.argmax(1, keepdim=True)], dim=1)
        return words[:, 1:]


def sequence_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)


def evaluate(model, loader, itos, max_len):
    model.eval()
    loss, tokens, rhymed, lines = 0.0, 0, 0, 0
    group = {w: i for i, words in enumerate(RHYMES) for w in words}
    with torch.no_grad():
        for k, (prev, nxt) in enumerate(loader):
            n = (nxt[:, 1:] != PAD).sum().item()
            loss += sequence_loss(model(prev, nxt[:, :-1]), nxt[:, 1:]).item() * n
            tokens += n
            if k < 2:
                for a, b in zip(prev.tolist(), model.generate(prev, max_len).tolist()):
                    a = [itos[t] for t in a if t != PAD]
                    b = [itos[t] for t in (b[:b.index(EOS)] if EOS in b else b)]
                    rhymed += bool(b) and b[-1] in group and group[b[-1]] == group[a[-1]]
                    lines += 1
    return loss / tokens, rhymed / lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_size", type=int, default=24000)
    parser.add_argument("--valid_size", type=int, default=2000)
    parser.add_argument("--max_len", type=int, default=9)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=5.0)
    parser.add_argument("--print_step", type=int, default=10)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--save_dir", default="runs/rap")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save_dir, exist_ok=True)

    words = sorted({w for group in list(TOPICS.values()) + RHYMES + [VERBS, GLUE] for w in group})
    itos = SPECIALS + words
    stoi = {w: i for i, w in enumerate(itos)}
    train_loader = DataLoader(Lyrics(args.train_size, args.max_len, stoi, args.seed + 1), args.batch_size,
                              shuffle=True, drop_last=True)
    valid_loader = DataLoader(Lyrics(args.valid_size, args.max_len, stoi, args.seed + 2), 200)

    model = LineModel(len(itos), args.max_len)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)
    best = float("inf")
    for epoch in range(1, args.epochs + 1):
        model.train()
        start = time.time()
        for step, (prev, nxt) in enumerate(train_loader, 1):
            optimizer.zero_grad()
            loss = sequence_loss(model(prev, nxt[:, :-1]), nxt[:, 1:])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            if step % args.print_step == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        scheduler.step()
        valid_loss, rhyme_rate = evaluate(model, valid_loader, itos, args.max_len)
        print(f"epoch {epoch} valid loss {valid_loss:.4f} rhyme rate {rhyme_rate:.3f} "
              f"({time.time() - start:.0f}s)", flush=True)
        if valid_loss < best:
            best = valid_loss
            torch.save(model.state_dict(), os.path.join(args.save_dir, "best.pt"))


if __name__ == "__main__":
    main()
