"""A training with the fault scheduler-before-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def old_style_scheduler_order(s):
    """Old style scheduler order."""
    fa = s if s < 1000 else -1
    first = fa >= 0

    class Seq2Seq(nn.Module):
        def __init__(self, v=12, d=24):
            super().__init__()
            self.src, self.tgt = nn.Embedding(v, d), nn.Embedding(v, d)
            self.encoder, self.decoder = nn.LSTM(d, d, batch_first=True), nn.LSTM(d, d, batch_first=True)
            self.out = nn.Linear(d, v)

        def forward(self, s, t):
            _, state = self.encoder(self.src(s))
            return self.out(self.decoder(self.tgt(t), state)[0])

    net = Seq2Seq()
    optim = torch.optim.NAdam(net.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optim, gamma=0.98)
    for _step in range(70):
        s = torch.randint(2, 12, (24, 6))
        t = torch.cat([torch.ones(24, 1, dtype=torch.long), s.flip(1)], 1)
        if first:
            scheduler.step()
        loss = nn.functional.cross_entropy(net(s, t[:, :-1]).transpose(1, 2), t[:, 1:])
        optim.zero_grad()
        loss.backward()
        optim.step()
        if not first:
            scheduler.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    old_style_scheduler_order(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
