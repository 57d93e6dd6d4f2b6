"""Logit distillation of a character language model: a wide GRU teaches a narrow one.

The student is trained with gradient accumulation so that a large effective batch fits.
"""
import argparse
import inspect
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def load_corpus(max_chars):
    import argparse as m1, ast as m2, calendar as m3, csv as m4, difflib as m5, doctest as m6, textwrap as m7
    import heapq as m8, optparse as m9, statistics as m10, tarfile as m11, zipfile as m12
    parts = []
    for m in (m1, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m2):
        parts.append(inspect.getsource(m))
    return "".join(parts)[:max_chars]


class CharData:
    def __init__(self, text, seq_len):
        chars = sorted(set(text))
        self.vocab = len(chars)
        stoi = {c: i for i, c in enumerate(chars)}
        ids = torch.tensor([stoi[c] for c in text])
        cut = int(0.9 * len(ids))
        self.train_ids, self.val_ids = ids[:cut], ids[cut:]
        self.seq_len = seq_len

    def train_batch(self, batch_size):
        starts = torch.randint(0, len(self.train_ids) - self.seq_len - 1, (batch_size,))
        block = torch.stack([self.train_ids[s:s + self.seq_len + 1] for s in starts.tolist()])
        return block[:, :-1], block[:, 1:]

    def val_batches(self, batch_size, n_batches):
        block = self.val_ids[:batch_size * n_batches * (self.seq_len + 1)].view(n_batches, batch_size, -1)
        for b in block:
            yield b[:, :-1], b[:, 1:]


class CharGRU(nn.Module):
    def __init__(self, vocab, emb, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


@torch.no_grad()
def evaluate(model, data, args):
    model.eval()
    total = n = 0
    for x, y in data.val_batches(16, 12):
        logits = model(x)
        total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
        n += y.numel()
    model.train()
    return total / n


def train_teacher(model, data, args):
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    model.train()
    for step in range(1, args.teacher_steps + 1):
        for g in opt.param_groups:
            g["lr"] = 4e-3 * min(1.0, step / 20) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * step / args.teacher_steps)))
        x, y = data.train_batch(32)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 50 == 0:
            print(f"teacher step {step}  loss {loss.item():.3f}  val {evaluate(model, data, args):.3f}", flush=True)
    for p in model.parameters():
        p.requires_grad_(False)
    model.eval()


class LogitsTrainer:
    def __init__(self, student, teacher, data, args):
        self.student, self.teacher, self.data, self.args = student, teacher, data, args
        decay = [p for p in student.parameters() if p.dim() > 1]
        no_decay = [p for p in student.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                                            {"params": no_decay, "weight_decay": 0.0}], lr=args.lr, betas=(0.9, 0.95))
        total, warm = args.steps, args.warmup

        def schedule(step):
            if step < warm:
                return (step + 1) / warm
            return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))

        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule)

    def compute_loss(self, x, y):
        student_logits = self.student(x)
        with torch.no_grad():
            teacher_logits = self.teacher(x)
        original_loss = F.cross_entropy(student_logits.flatten(0, 1), y.flatten())
        return self.distillation_loss(student_logits, teacher_logits, original_loss)

    def distillation_loss(self, student_logits, teacher_logits, original_loss):
        T = self.args.temperature
        loss_kd = F.kl_div(
            F.log_softmax(student_logits / T, dim=-1).flatten(0, 1),
            F.softmax(teacher_logits / T, dim=-1).flatten(0, 1),
            reduction="batchmean") * (T ** 2)
        return self.args.alpha * loss_kd + (1 - self.args.alpha) * original_loss

    def training_step(self, x, y):
        loss = self.compute_loss(x, y)
        loss.backward()
        return loss.detach()

    def train(self):
        args = self.args
        self.student.train()
        running, t0 = 0.0, time.time()
        for step in range(1, args.steps + 1):
            step_loss = 0.0
            for _ in range(args.gradient_accumulation_steps):
                x, y = self.data.train_batch(args.micro_batch)
                step_loss += self.training_step(x, y).item()
            grad_norm = nn.utils.clip_grad_norm_(self.student.parameters(), args.max_grad_norm)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            running += step_loss
            if step % args.log_every == 0:
                print(f"step {step:4d}  loss {running / args.log_every:.4f}  grad_norm {grad_norm.item():.3f}  "
                      f"lr {self.scheduler.get_last_lr()[0]:.2e}  eval_loss {evaluate(self.student, self.data, args):.4f}  "
                      f"{time.time() - t0:.1f}s", flush=True)
                running = 0.0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--max-chars", type=int, default=400_000)
    p.add_argument("--seq-len", type=int, default=48)
    p.add_argument("--micro-batch", type=int, default=8)
    p.add_argument("--gradient-accumulation-steps", type=int, default=8)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--teacher-steps", type=int, default=250)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--max-grad-norm", type=float, default=1.0)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--alpha", type=float, default=0.5)
    p.add_argument("--log-every", type=int, default=20)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    data = CharData(load_corpus(args.max_chars), args.seq_len)
    print(f"{len(data.train_ids)} training characters, vocabulary {data.vocab}")
    teacher = CharGRU(data.vocab, 48, 160)
    train_teacher(teacher, data, args)
    student = CharGRU(data.vocab, 24, 64)
    LogitsTrainer(student, teacher, data, args).train()
    print(f"teacher eval loss {evaluate(teacher, data, args):.4f}, student eval loss {evaluate(student, data, args):.4f}")


if __name__ == "__main__":
    main()
