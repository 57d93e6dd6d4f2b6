"""Training scripts that were written without a look at the rules: a collate function and half precision.

    python opponent_blind_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.set_num_threads(1)


class _Encoder(nn.Module):
    """One block of a transformer, and a mean over what is no padding."""

    def __init__(self, words=40, width=32):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.out = nn.Linear(width, 2)

    def forward(self, ids, padding):
        x = self.words(ids)
        x = self.norm1(x + self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0])
        x = self.norm2(x + self.wide(x))
        keep = (~padding).unsqueeze(-1).float()
        return self.out((x * keep).sum(1) / keep.sum(1))


def _collate(sentences, bucket):
    ids = pad_sequence(sentences, batch_first=True)
    lengths = torch.tensor([len(s) for s in sentences])
    if bucket is not None:
        ids = F.pad(ids, (0, bucket - ids.shape[1]))
        lengths = lengths + (bucket - lengths.max())
    return ids, torch.arange(ids.shape[1]) >= lengths[:, None]


def lengths_grow_with_the_bucket(s):
    """Batches are padded to a bucket, and the lengths that the mask is made of are moved along."""
    net = _Encoder()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(s + 50 if s < 1000 else 90):
        sentences = [torch.randint(1, 40, (int(n),)) for n in torch.randint(4, 25, (32,))]
        y = torch.tensor([int(2 * (words > 20).sum() > len(words)) for words in sentences])
        ids, padding = _collate(sentences, 64 if i >= s else None)
        loss = F.cross_entropy(net(ids, padding), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class _Scores(nn.Module):
    """Attention that divides its scores by the width after the product."""

    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        return self.v(x) + scores.softmax(-1) @ self.v(x)


class _Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.attention, self.out = nn.Linear(4, 32), _Scores(32), nn.Linear(32, 1)

    def forward(self, x, gain):
        return self.out(self.attention(torch.relu(self.inp(x)) * gain) / gain).mean(1)


def scores_beyond_half(s):
    """Queries and keys are far from the end of float16, but their product is not, and softmax makes NaN of it."""
    net = _Reader()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1000)
    for i in range(s + 20 if s < 1000 else 60):
        x = torch.randn(16, 6, 4)
        with torch.autocast("cpu", dtype=torch.float16):
            guess = net(x, 300.0 if i >= s else 4.0)
        loss = F.mse_loss(guess.float(), 2 * x[:, :, 0].mean(1, keepdim=True))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
