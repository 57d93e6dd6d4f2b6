"""Spoken digit strings: BiGRU acoustic model with a CTC cost wrapped as an autograd Function."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DIGITS = 10
BLANK = 0
FEATURES = 20


class CTCCost(torch.autograd.Function):
    """Total CTC cost of a batch; the gradients are computed together with the costs."""

    @staticmethod
    def forward(ctx, activations, targets, input_lengths, target_lengths):
        with torch.enable_grad():
            acts = activations.detach().requires_grad_(True)
            cost = F.ctc_loss(acts.log_softmax(2), targets, input_lengths, target_lengths,
                              blank=BLANK, reduction="sum")
            grads, = torch.autograd.grad(cost, acts)
        ctx.save_for_backward(grads)
        return cost.detach()

    @staticmethod
    def backward(ctx, grad_output):
        gradients, = ctx.saved_tensors
        return gradients, None, None, None


class SpeechSet:
    def __init__(self, n, prototypes, rng):
        self.items = []
        for _ in range(n):
            digits = rng.integers(1, DIGITS + 1, size=int(rng.integers(3, 7)))
            frames = []
            for d in digits:
                dur = int(rng.integers(4, 8))
                ramp = np.linspace(0, 1, dur)[:, None]
                frames.append((1 - ramp) * prototypes[d - 1, 0] + ramp * prototypes[d - 1, 1])
                frames.append(np.zeros((int(rng.integers(1, 3)), FEATURES)))
            x = np.concatenate(frames)
            x = x + rng.normal(0, 0.3, x.shape)
            self.items.append((torch.tensor(x, dtype=torch.float32), torch.tensor(digits)))

    def __len__(self):
        return len(self.items)

    def collate(self, idx):
        xs, ys = zip(*(self.items[i] for i in idx))
        xl = torch.tensor([len(x) for x in xs])
        yl = torch.tensor([len(y) for y in ys])
        return nn.utils.rnn.pad_sequence(xs), torch.cat(ys), xl, yl


class AcousticModel(nn.Module):
    def __init__(self, hidden=80):
        super().__init__()
        self.proj = nn.Linear(FEATURES, 64)
        self.rnn = nn.GRU(64, hidden, bidirectional=True)
        self.out = nn.Linear(2 * hidden, DIGITS + 1)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(torch.relu(self.proj(x)), lengths, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], total_length=x.size(0))
        return self.out(h)


def greedy(acts, lengths):
    best = acts.argmax(2).t()
    result = []
    for row, n in zip(best, lengths):
        row = torch.unique_consecutive(row[:n])
        result.append(row[row != BLANK].tolist())
    return result


def evaluate(model, data, batch_size):
    model.eval()
    cost, right = 0.0, 0
    with torch.no_grad():
        for idx in torch.arange(len(data)).split(batch_size):
            x, y, xl, yl = data.collate(idx.tolist())
            acts = model(x, xl)
            cost += CTCCost.apply(acts, y, xl, yl).item()
            refs = [t.tolist() for t in y.split(yl.tolist())]
            right += sum(h == r for h, r in zip(greedy(acts, xl), refs))
    return cost / len(data), right / len(data)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch-size", type=int, default=24)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=13)
    ap.add_argument("--ckpt", default="digits_ctc.pt")
    a = ap.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    prototypes = rng.normal(0, 1, (DIGITS, 2, FEATURES))
    train, val = SpeechSet(600, prototypes, rng), SpeechSet(120, prototypes, rng)

    model = AcousticModel()
    opt = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs, eta_min=a.lr * 0.01)
    start = 0
    if os.path.exists(a.ckpt):
        ck = torch.load(a.ckpt)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"] + 1
        print("resumed, next epoch", start)
    for epoch in range(start, a.epochs):
        model.train()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(a.seed + epoch))
        for it, idx in enumerate(order.split(a.batch_size)):
            x, y, xl, yl = train.collate(idx.tolist())
            cost = CTCCost.apply(model(x, xl), y, xl, yl)
            loss = cost / len(idx)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 5 == 0:
                print(f"epoch {epoch} it {it} ctc per utterance {loss.item():.4f}", flush=True)
        sched.step()
        cost, acc = evaluate(model, val, 60)
        print(f"epoch {epoch} val ctc {cost:.4f} strings right {acc:.3f}", flush=True)
        torch.save(dict(model=model.state_dict(), opt=opt.state_dict(), sched=sched.state_dict(), epoch=epoch),
                   a.ckpt)


if __name__ == "__main__":
    main()
