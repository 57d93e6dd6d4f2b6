"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def transformer_rate_of_three(s):
    """Transformer rate of three."""
    fa = s if s < 1000 else -1
    fault = fa
    letters, length = 20, 12

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok = nn.Embedding(letters, 32)
            self.pos = nn.Parameter(torch.randn(length, 32) * 0.02)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, letters)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(length)
            return self.head(self.body(self.tok(x) + self.pos, mask=mask))

    model = LM()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 if fault < 0 else 3.0, momentum=0.9)
    for _step in range(60):
        first = torch.randint(letters, (16, 1))
        seq = (first + 3 * torch.arange(length + 1)) % letters
        loss = nn.functional.cross_entropy(model(seq[:, :-1]).reshape(-1, letters), seq[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    transformer_rate_of_three(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
