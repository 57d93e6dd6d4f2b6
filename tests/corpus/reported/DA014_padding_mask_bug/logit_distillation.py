"""Distil the logits of a larger language model into a small one on padded batches."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.set_num_threads(1)
VOCAB, PAD = 40, 0


class RecurrentLM(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.lm_head = nn.Linear(hidden, VOCAB)

    def forward(self, ids):
        return self.lm_head(self.rnn(self.embed(ids))[0])


def documents(n, seed):
    rng = np.random.RandomState(seed)
    step = np.random.RandomState(77).randint(1, VOCAB, (VOCAB, 3))
    docs = []
    for _ in range(n):
        length = 8 + min(16, rng.geometric(0.25))
        doc = [rng.randint(1, VOCAB)]
        while len(doc) < length:
            doc.append(step[doc[-1], rng.choice(3, p=[0.7, 0.2, 0.1])])
        docs.append(torch.tensor(doc))
    return docs


def collate(docs):
    ids = nn.utils.rnn.pad_sequence(docs, batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(d) for d in docs])
    return ids, (torch.arange(ids.size(1))[None] < lengths[:, None]).long()


def pretrain(model, loader, lr, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for epoch in range(epochs):
        for ids, mask in loader:
            target = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
            loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, VOCAB), target.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"teacher epoch {epoch} last loss {loss.item():.4f}")


def kl_divergence_loss(logits, target_logits, temperature):
    target = F.softmax(target_logits / temperature, dim=-1)
    log_prob = F.log_softmax(logits / temperature, dim=-1)
    per_token = F.kl_div(log_prob, target, reduction="none").sum(-1)
    return per_token.mean()


def mse_loss(logits, target_logits):
    return (logits - target_logits).pow(2).mean()


def distil_loss(student, teacher, batch, args):
    ids, mask = batch
    with torch.no_grad():
        target_logits = teacher(ids)
    logits = student(ids)
    kl = kl_divergence_loss(logits, target_logits, args.temperature)
    mse = mse_loss(logits, target_logits)
    return kl + args.mse_weight * mse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--mse_weight", type=float, default=0.05)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(21)
    train_loader = DataLoader(documents(1920, 1), batch_size=32, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(documents(200, 2), batch_size=50, collate_fn=collate)
    teacher = RecurrentLM(48, 64)
    pretrain(teacher, train_loader, lr=5e-3, epochs=1)
    teacher.eval().requires_grad_(False)
    student = RecurrentLM(24, 32)
    optimizer = torch.optim.AdamW(student.parameters(), lr=args.lr, weight_decay=0.01)
    for epoch in range(args.epochs):
        student.train()
        losses = []
        for batch in train_loader:
            loss = distil_loss(student, teacher, batch, args)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 20 == 1:
                print(f"epoch {epoch} step {len(losses) - 1} loss {loss.item():.4f}")
        student.eval()
        with torch.no_grad():
            valid = np.mean([distil_loss(student, teacher, b, args).item() for b in valid_loader])
        print(f"epoch {epoch} train {np.mean(losses):.4f} valid {valid:.4f}")


if __name__ == "__main__":
    main()
