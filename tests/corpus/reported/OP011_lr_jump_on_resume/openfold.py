"""Per-residue structure classifier with the AlphaFold learning rate schedule and checkpoint restart."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_AA, NUM_CLASSES, LENGTH = 20, 3, 40


def make_proteins(n, seed):
    """Secondary structure follows window-averaged propensities of the residues."""
    rng = np.random.default_rng(seed)
    prop = np.random.default_rng(11).normal(0, 1, (NUM_AA, NUM_CLASSES))
    seq = rng.integers(0, NUM_AA, (n, LENGTH))
    score = prop[seq]
    kernel = np.array([0.3, 1.0, 1.3, 1.0, 0.3])
    padded = np.pad(score, ((0, 0), (2, 2), (0, 0)))
    window = sum(k * padded[:, i:i + LENGTH] for i, k in enumerate(kernel))
    return torch.from_numpy(seq), torch.from_numpy(window.argmax(-1))


class AlphaFoldLRScheduler(torch.optim.lr_scheduler.LRScheduler):
    """Linear warm-up, plateau, then exponential decay (1.11.3 of the supplement)."""

    def __init__(self, optimizer, last_epoch=-1, base_lr=0.0, max_lr=1e-3, warmup_no_steps=150,
                 start_decay_after_n_steps=700, decay_every_n_steps=50, decay_factor=0.9):
        self.base_lr = base_lr
        self.max_lr = max_lr
        self.warmup_no_steps = warmup_no_steps
        self.start_decay_after_n_steps = start_decay_after_n_steps
        self.decay_every_n_steps = decay_every_n_steps
        self.decay_factor = decay_factor
        super().__init__(optimizer, last_epoch=last_epoch)

    def get_lr(self):
        step_no = self.last_epoch
        if step_no <= self.warmup_no_steps:
            lr = self.base_lr + (step_no / self.warmup_no_steps) * self.max_lr
        elif step_no > self.start_decay_after_n_steps:
            steps = step_no - self.start_decay_after_n_steps
            lr = self.max_lr * self.decay_factor ** (steps // self.decay_every_n_steps + 1)
        else:
            lr = self.max_lr
        return [lr for _ in self.optimizer.param_groups]


class StructureModel(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2):
        super().__init__()
        self.aa = nn.Embedding(NUM_AA, dim)
        self.local = nn.Conv1d(dim, dim, 3, padding=1)
        self.pos = nn.Parameter(torch.randn(1, LENGTH, dim) * 0.1)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, 0.0, batch_first=True, norm_first=True)
        self.trunk = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, NUM_CLASSES))

    def forward(self, seq):
        x = self.aa(seq)
        x = x + self.local(x.transpose(1, 2)).transpose(1, 2) + self.pos
        return self.head(self.trunk(x))


def configure_optimizers(model, args):
    optimizer = torch.optim.Adam(model.parameters(), lr=args.max_lr, eps=1e-5)
    scheduler = AlphaFoldLRScheduler(optimizer, max_lr=args.max_lr)
    return optimizer, scheduler


@torch.no_grad()
def validate(model, seq, label):
    model.eval()
    logits = torch.cat([model(s) for s in seq.split(256)])
    loss = F.cross_entropy(logits.transpose(1, 2), label).item()
    acc = (logits.argmax(-1) == label).float().mean().item()
    model.train()
    return loss, acc


def fit(args, data, stop_step, ckpt_path, resume_from_ckpt=None):
    model = StructureModel()
    gen = torch.Generator().manual_seed(args.seed)
    start = 0
    ckpt = None
    if resume_from_ckpt:
        ckpt = torch.load(resume_from_ckpt)
        model.load_state_dict(ckpt["state_dict"])
        gen.set_state(ckpt["generator"])
        start = ckpt["global_step"]
        print(f"resuming from {os.path.basename(resume_from_ckpt)} at step {start}")
    optimizer, scheduler = configure_optimizers(model, args)
    if ckpt is not None:
        lrs = [group["lr"] for group in optimizer.param_groups]
        optimizer.load_state_dict(ckpt["optimizer"])
        for group, lr in zip(optimizer.param_groups, lrs):
            group["lr"] = lr

    (seq, label), (vseq, vlabel) = data
    for step in range(start, stop_step):
        idx = torch.randint(0, len(seq), (args.batch_size,), generator=gen)
        loss = F.cross_entropy(model(seq[idx]).transpose(1, 2), label[idx])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if (step + 1) % 50 == 0:
            vloss, vacc = validate(model, vseq, vlabel)
            print(f"step {step + 1:4d} lr {scheduler.get_last_lr()[0]:.2e} train {loss.item():.4f} "
                  f"val {vloss:.4f} acc {vacc:.3f}", flush=True)
    torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(),
                "generator": gen.get_state(), "global_step": stop_step}, ckpt_path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=1000)
    parser.add_argument("--walltime-steps", type=int, default=500, help="steps until the job's time is up")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    data = make_proteins(8000, 1), make_proteins(600, 2)
    with tempfile.TemporaryDirectory() as out:
        ckpt = os.path.join(out, "last.ckpt")
        fit(args, data, args.walltime_steps, ckpt)
        fit(args, data, args.max_steps, ckpt, resume_from_ckpt=ckpt)


if __name__ == "__main__":
    main()
