"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    lengths_grow_with_the_bucket(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
