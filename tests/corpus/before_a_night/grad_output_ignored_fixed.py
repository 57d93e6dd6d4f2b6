"""Joint CTC and speaker training on synthetic digit strings; the CTC binding computes its gradient in the forward pass."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_MEL, N_SYM, N_SPK = 24, 8, 6


def make_utterances(n, seed):
    """Spectrogram-like frames: a bump a symbol (4 to 6 frames), speaker = spectral tilt; padded to 48 frames."""
    g = torch.Generator().manual_seed(seed)
    bands = torch.arange(N_MEL).float()
    feats, flen, labels, llen, spk = [], [], [], [], []
    for _ in range(n):
        k = int(torch.randint(3, 8, (1,), generator=g))
        s = int(torch.randint(0, N_SPK, (1,), generator=g))
        seq = torch.randint(1, N_SYM, (k,), generator=g)
        frames = [torch.zeros(2, N_MEL)]
        for c in seq.tolist():
            d = int(torch.randint(4, 7, (1,), generator=g))
            frames.append(torch.exp(-0.5 * ((bands - 3 * c) / 1.5) ** 2).repeat(d, 1) * 2)
            frames.append(torch.zeros(1, N_MEL))
        x = torch.cat(frames)[:48]
        x = x + (s - 2.5) * 0.15 * (bands / N_MEL - 0.5) + 0.25 * torch.randn(x.shape, generator=g)
        feats.append(F.pad(x, (0, 0, 0, 48 - len(x))))
        flen.append(len(x)), labels.append(F.pad(seq, (0, 8 - k))), llen.append(k), spk.append(s)
    return (torch.stack(feats), torch.tensor(flen), torch.stack(labels), torch.tensor(llen), torch.tensor(spk))


class _CTC(torch.autograd.Function):
    """Costs and gradients come from one call; the gradients are kept for the backward pass."""

    @staticmethod
    def forward(ctx, acts, labels, act_lens, label_lens, blank):
        with torch.enable_grad():
            a = acts.detach().requires_grad_(True)
            costs = F.ctc_loss(a.log_softmax(-1), labels, act_lens, label_lens, blank=blank,
                               reduction="sum", zero_infinity=True) / acts.size(1)
            (grads,) = torch.autograd.grad(costs, a)
        ctx.save_for_backward(grads)
        return costs.detach()

    @staticmethod
    def backward(ctx, grad_output):
        (grads,) = ctx.saved_tensors
        return grads * grad_output, None, None, None, None


class CTCLoss(nn.Module):
    def __init__(self, blank=0):
        super().__init__()
        self.blank = blank

    def forward(self, acts, labels, act_lens, label_lens):
        return _CTC.apply(acts, labels, act_lens, label_lens, self.blank)


class SpeechNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(N_MEL, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2), nn.ReLU())
        self.rnn = nn.GRU(64, hidden, batch_first=True, bidirectional=True)
        self.sym = nn.Linear(2 * hidden, N_SYM)
        self.spk = nn.Linear(2 * hidden, N_SPK)

    def forward(self, x, lens):
        h, _ = self.rnn(self.conv(x.transpose(1, 2)).transpose(1, 2))
        keep = (torch.arange(x.size(1)).unsqueeze(0) < lens.unsqueeze(1)).float().unsqueeze(-1)
        pooled = (h * keep).sum(1) / keep.sum(1)
        return self.sym(h).transpose(0, 1), self.spk(pooled)


def joint_loss(model, ctc, batch, weight):
    x, xl, y, yl, s = batch
    acts, spk = model(x, xl)
    l_ctc, l_spk = ctc(acts, y, xl, yl), F.cross_entropy(spk, s)
    return weight * l_ctc + (1 - weight) * l_spk, l_ctc.item(), l_spk.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=20)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--ctc-weight", type=float, default=0.2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save", default="speech.pt")
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    train, dev = make_utterances(500, 10), make_utterances(100, 11)
    model, ctc = SpeechNet(), CTCLoss()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs)
    first = 0
    if os.path.exists(a.save):
        c = torch.load(a.save)
        model.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        torch.set_rng_state(c["rng"])
        first = c["epoch"]
    for epoch in range(first, a.epochs):
        model.train()
        order = torch.randperm(len(train[0]), generator=torch.Generator().manual_seed(a.seed * 1000 + epoch))
        for i, idx in enumerate(order.split(a.batch_size)):
            loss, lc, ls = joint_loss(model, ctc, [t[idx] for t in train], a.ctc_weight)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.4f} ctc {lc:.4f} speaker {ls:.4f}", flush=True)
        sched.step()
        model.eval()
        with torch.no_grad():
            loss, lc, ls = joint_loss(model, ctc, dev, a.ctc_weight)
        print(f"epoch {epoch} dev loss {loss.item():.4f} ctc {lc:.4f} speaker {ls:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, a.save)


if __name__ == "__main__":
    main()
