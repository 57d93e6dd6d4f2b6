"""phoonnx: small VITS-style acoustic model, trained on a preemptible node (one checkpoint per epoch)."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
N_MEL, N_PHONE, MAXLEN = 20, 24, 12


class PhonemeDataset(Dataset):
    """Utterances: phoneme ids with durations, and the mel frames that belong to them."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        proto = np.random.default_rng(0).normal(0, 1, size=(N_PHONE, N_MEL))
        self.items = []
        for i in range(n):
            length = int(rng.integers(6, MAXLEN + 1))
            ids = rng.integers(1, N_PHONE, size=length)
            dur = 2 + (ids * 7 + np.arange(length)) % 4
            mel = np.repeat(proto[ids], dur, axis=0)
            mel = mel + 0.3 * np.sin(np.arange(len(mel)) / 3.0)[:, None] + rng.normal(0, 0.15, size=mel.shape)
            self.items.append((i, ids, dur, mel.astype(np.float32)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    T = max(len(b[3]) for b in batch)
    ids = torch.zeros(len(batch), MAXLEN, dtype=torch.long)
    dur = torch.zeros(len(batch), MAXLEN, dtype=torch.long)
    mel = torch.zeros(len(batch), T, N_MEL)
    mask = torch.zeros(len(batch), T)
    for k, (_, i, d, m) in enumerate(batch):
        ids[k, :len(i)] = torch.from_numpy(i)
        dur[k, :len(d)] = torch.from_numpy(d)
        mel[k, :len(m)] = torch.from_numpy(m)
        mask[k, :len(m)] = 1
    return [b[0] for b in batch], ids, dur, mel, mask


class VitsModel(nn.Module):
    def __init__(self, hidden=96, latent=16):
        super().__init__()
        self.emb = nn.Embedding(N_PHONE, hidden)
        self.enc = nn.GRU(hidden, hidden // 2, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.dp = nn.Linear(hidden, 1)
        self.prior = nn.Linear(hidden, 2 * latent)
        self.post = nn.Sequential(nn.Conv1d(N_MEL, hidden, 5, padding=2), nn.ReLU(), nn.Conv1d(hidden, 2 * latent, 5, padding=2))
        self.dec = nn.Sequential(nn.Conv1d(latent, hidden, 5, padding=2), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Conv1d(hidden, hidden, 5, padding=2), nn.ReLU(), nn.Conv1d(hidden, N_MEL, 5, padding=2))

    def forward(self, ids, dur, mel):
        h = self.drop(self.enc(self.emb(ids))[0])
        logw = self.dp(h.detach()).squeeze(-1)
        index = torch.zeros(mel.shape[:2], dtype=torch.long)
        for b in range(len(ids)):
            rep = torch.repeat_interleave(torch.arange(ids.shape[1]), dur[b])
            index[b, :len(rep)] = rep
        h = torch.gather(h, 1, index.unsqueeze(-1).expand(-1, -1, h.shape[-1]))
        m_p, logs_p = self.prior(h).chunk(2, -1)
        m_q, logs_q = self.post(mel.transpose(1, 2)).transpose(1, 2).chunk(2, -1)
        z = m_q + torch.randn_like(m_q) * torch.exp(logs_q)
        kl = (logs_p - logs_q - 0.5 + 0.5 * (torch.exp(2 * logs_q) + (m_q - m_p) ** 2) * torch.exp(-2 * logs_p)).mean(-1)
        return self.dec(z.transpose(1, 2)).transpose(1, 2), kl, logw, self.dec(m_p.transpose(1, 2)).transpose(1, 2)


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class VitsTrainer:
    def __init__(self, args):
        seed_everything(args.seed)
        self.args = args
        self.model = VitsModel()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, betas=(0.8, 0.99))
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma=0.95)
        self.train_loader = DataLoader(PhonemeDataset(args.utterances, 5), args.batch_size, shuffle=True, collate_fn=collate)
        self.val_loader = DataLoader(PhonemeDataset(64, 6), 32, collate_fn=collate)
        self.epoch = self.global_step = 0

    def save_checkpoint(self, path):
        torch.save({'state_dict': self.model.state_dict(), 'optimizer_states': self.opt.state_dict(),
                    'lr_schedulers': self.sched.state_dict(), 'epoch': self.epoch,
                    'global_step': self.global_step, 'hyper_parameters': vars(self.args),
                    'random_state': (random.getstate(), np.random.get_state(), torch.get_rng_state())}, path)

    def load_checkpoint(self, path):
        ckpt = torch.load(path, weights_only=False)
        self.model.load_state_dict(ckpt['state_dict'])
        self.opt.load_state_dict(ckpt['optimizer_states'])
        self.sched.load_state_dict(ckpt['lr_schedulers'])
        self.epoch, self.global_step = ckpt['epoch'], ckpt['global_step']
        py_state, np_state, torch_state = ckpt['random_state']
        random.setstate(py_state)
        np.random.set_state(np_state)
        torch.set_rng_state(torch_state)

    def run_epoch(self):
        self.model.train()
        tot, seen = 0.0, []
        for utt, ids, dur, mel, mask in self.train_loader:
            seen += utt
            out, kl, logw, _ = self.model(ids, dur, mel)
            n = mask.sum()
            loss_mel = ((out - mel).abs().mean(-1) * mask).sum() / n
            loss_kl = (kl * mask).sum() / n
            real = (dur > 0).float()
            loss_dur = ((logw - torch.log(dur.clamp(min=1).float())) ** 2 * real).sum() / real.sum()
            self.opt.zero_grad()
            (loss_mel * 5 + loss_kl + loss_dur).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
            self.global_step += 1
            tot += loss_mel.item()
        self.sched.step()
        self.epoch += 1
        return tot / len(self.train_loader), seen

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        res = [(((self.model(i, d, m)[3] - m).abs().mean(-1) * k).sum() / k.sum()).item() for _, i, d, m, k in self.val_loader]
        return np.mean(res)


def fit(args, preempted):
    """Either one long process, or a new process for each epoch that goes on from the last checkpoint."""
    path = '/tmp/phoonnx_last_%d.ckpt' % os.getpid()
    name = 'preempted' if preempted else 'one process'
    trainer = VitsTrainer(args)
    history = []
    while trainer.epoch < args.max_epochs:
        if preempted and trainer.epoch > 0:
            trainer = VitsTrainer(args)
            trainer.load_checkpoint(path)
        loss, seen = trainer.run_epoch()
        val = trainer.validate()
        trainer.save_checkpoint(path)
        history.append(loss)
        print('[%s] epoch %d step %d loss_mel %.4f val %.4f utterances %s ...' % (
            name, trainer.epoch - 1, trainer.global_step, loss, val, seen[:8]), flush=True)
    os.remove(path)
    return trainer, history


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--max-epochs', type=int, default=5)
    ap.add_argument('--batch-size', type=int, default=16)
    ap.add_argument('--utterances', type=int, default=640)
    ap.add_argument('--lr', type=float, default=1e-3)
    ap.add_argument('--seed', type=int, default=1234)
    args = ap.parse_args()
    t0 = time.time()
    b, hb = fit(args, preempted=True)
    a, ha = fit(args, preempted=False)
    diff = max((x - y).abs().max().item() for x, y in zip(a.model.parameters(), b.model.parameters()))
    print('losses one process %s' % ['%.4f' % x for x in ha])
    print('losses preempted   %s' % ['%.4f' % x for x in hb])
    print('largest weight difference between the two runs: %.6f' % diff)
    print('time %.1f' % (time.time() - t0))


if __name__ == '__main__':
    main()
