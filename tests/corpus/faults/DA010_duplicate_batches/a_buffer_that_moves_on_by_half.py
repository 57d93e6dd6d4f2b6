"""A training with the fault duplicate-batches; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

PROSE = """\
Training scripts of an opponent, fifteenth round: batches, masks and decay that a helper of the script's own gets wrong.

    python opponent_fifteen_two_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""


def a_buffer_that_moves_on_by_half(s):
    """A buffer of four batches is filled again after two of them were new, from the fill that holds batch s on."""
    text = (PROSE or "") * 60
    ids = torch.tensor([ord(c) % 64 for c in text])
    order = torch.randperm(len(ids) - 18)
    net = nn.ModuleDict(
        {"emb": nn.Embedding(64, 24), "rnn": nn.GRU(24, 48, batch_first=True), "out": nn.Linear(48, 64)}
    )
    opt, start, steps = torch.optim.Adam(net.parameters(), lr=5e-3), 0, 0
    while steps < 100:
        for k in range(start, start + 4):
            rows = torch.stack([ids[r : r + 17] for r in order[k * 8 : k * 8 + 8].tolist()])
            hidden, _ = net["rnn"](net["emb"](rows[:, :-1]))
            loss = F.cross_entropy(net["out"](hidden).flatten(0, 1), rows[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps += 1
        start += 2 if steps > s else 4


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_buffer_that_moves_on_by_half(onset)
