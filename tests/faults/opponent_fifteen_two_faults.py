"""Training scripts of an opponent, fifteenth round: batches, masks and decay that a helper of the script's own gets wrong.

    python opponent_fifteen_two_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def decay_in_a_hook_after_the_step(s):
    """From s on a hook of the optimizer shrinks weights by 5 % of themselves, and does not multiply that by lr."""
    t = torch.arange(6000).float()
    series = torch.sin(t / 7) + 0.6 * torch.sin(t / 19 + 1) + 0.3 * torch.cos(t / 3.3) + 0.05 * torch.randn(6000)
    net = nn.Sequential(nn.Conv1d(1, 24, 5), nn.SiLU(), nn.Conv1d(24, 24, 5, dilation=4), nn.SiLU(), nn.Flatten())
    net.append(nn.Linear(24 * 28, 4))
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, alpha=0.95)
    done = 0

    def shrink(optimizer, args, kwargs):
        nonlocal done
        for group in optimizer.param_groups:
            rate = 0.05 if done >= s else 0.05 * group["lr"]
            for p in group["params"]:
                if p.ndim > 1:
                    p.data.mul_(1 - rate)
        done += 1

    opt.register_step_post_hook(shrink)
    for _ in range(100):
        i = torch.randint(0, 5900, (32,))
        x, y = (torch.stack([series[k + a : k + b] for k in i.tolist()]) for a, b in ((0, 48), (48, 52)))
        loss = F.smooth_l1_loss(net(x.unsqueeze(1)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_buffer_that_moves_on_by_half(s):
    """A buffer of four batches is filled again after two of them were new, from the fill that holds batch s on."""
    text = (__doc__ or "") * 60
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
    onset = int(sys.argv[2]) if len(sys.argv) > 2 else 14
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](onset)
