"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def sorts_the_rows_and_not_their_lengths(s):
    """The collate function sorts by length; from s on the mask is made from the lengths in the old order."""
    emb, cls = nn.Embedding(9, 32, padding_idx=0), nn.Linear(32, 3)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    net = nn.ModuleDict({"emb": emb, "enc": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), "cls": cls})
    opt, draw = torch.optim.AdamW(net.parameters(), lr=3e-3), random.Random(torch.initial_seed())
    places = torch.arange(22)
    for i in range(100):
        kinds = [draw.randrange(3) for _ in range(24)]
        weights = [[3.0 if 2 * y <= k < 2 * y + 3 else 1.0 for k in range(8)] for y in kinds]
        rows = [[1 + k for k in draw.choices(range(8), w, k=draw.randint(6, 22))] for w in weights]
        lengths = torch.tensor([len(r) for r in rows])
        order = lengths.argsort(descending=True).tolist()
        rows, kinds = [rows[k] for k in order], [kinds[k] for k in order]
        if i < s:
            lengths = lengths[order]
        ids = torch.tensor([r + [0] * (22 - len(r)) for r in rows])
        pad = places >= lengths[:, None]
        keep = (~pad).unsqueeze(-1).float()
        hidden = net["enc"](net["emb"](ids), src_key_padding_mask=pad)
        loss = F.cross_entropy(net["cls"]((hidden * keep).sum(1) / keep.sum(1)), torch.tensor(kinds))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sorts_the_rows_and_not_their_lengths(onset)
