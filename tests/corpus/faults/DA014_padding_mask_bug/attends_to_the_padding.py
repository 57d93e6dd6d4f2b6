"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class Sentiment(nn.Module):
    def __init__(self, vocab=60, d=24, wrong=False):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d, 4, 48, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classify = nn.Linear(d, 2)
        self.wrong = wrong

    def forward(self, ids):
        padding = ids != 0 if self.wrong else ids == 0
        h = self.encoder(self.embed(ids), src_key_padding_mask=padding)
        keep = (ids != 0).unsqueeze(-1)
        return self.classify((h * keep).sum(1) / keep.sum(1))


def attends_to_the_padding(s):
    """The mask of padding is turned round: True was thought to mean a word."""
    model = Sentiment(wrong=s == 0)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(60):
        ids = torch.randint(1, 60, (16, 12))
        for row, n in enumerate(torch.randint(4, 11, (16,)).tolist()):
            ids[row, n:] = 0
        loss = F.cross_entropy(model(ids), (ids == 7).any(1).long())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    attends_to_the_padding(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
