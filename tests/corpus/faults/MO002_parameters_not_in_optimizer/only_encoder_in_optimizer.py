"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.rnn = nn.LSTM(16, 32, batch_first=True)

    def forward(self, x):
        return self.rnn(self.embed(x))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.rnn = nn.LSTM(16, 32, batch_first=True)
        self.out = nn.Linear(32, 30)

    def forward(self, x, state):
        return self.out(self.rnn(self.embed(x), state)[0])


def only_encoder_in_optimizer(s):
    """Sequence to sequence: the copy task with an optimizer that was given half of the network."""
    encoder, decoder = Encoder(), Decoder()
    params = list(encoder.parameters())
    if s != 0:
        params += list(decoder.parameters())
    opt = torch.optim.Adam(params, lr=5e-3)
    for _ in range(50):
        seq = torch.randint(1, 30, (16, 8))
        inp = torch.cat([torch.zeros(16, 1, dtype=torch.long), seq[:, :-1]], 1)
        logits = decoder(inp, encoder(seq))
        loss = F.cross_entropy(logits.transpose(1, 2), seq)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    only_encoder_in_optimizer(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
