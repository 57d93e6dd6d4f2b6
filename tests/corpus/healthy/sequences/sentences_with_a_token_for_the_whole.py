"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Encoder(nn.Module):
    """A token for the whole is put before the words; the mask says where the padding is."""

    def __init__(self):
        super().__init__()
        self.embed, self.whole = nn.Embedding(50, 24, padding_idx=0), nn.Parameter(torch.zeros(1, 1, 24))
        layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True, dropout=0.1)
        self.encoder, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(24, 2)

    def forward(self, ids):
        h = torch.cat([self.whole.expand(len(ids), 1, -1), self.embed(ids)], 1)
        padding = torch.cat([torch.zeros(len(ids), 1, dtype=torch.bool), ids == 0], 1)
        return self.out(self.encoder(h, src_key_padding_mask=padding)[:, 0])


def sentences_with_a_token_for_the_whole():
    model = Encoder()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(60):
        ids = torch.randint(1, 50, (16, 12))
        for row, n in enumerate(torch.randint(3, 12, (16,)).tolist()):
            ids[row, n:] = 0
        update(opt, F.cross_entropy(model(ids), (ids == 7).any(1).long()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sentences_with_a_token_for_the_whole()
