"""A training with the fault attention-entropy-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def attention_weights_loaded_in_other_units(s):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(40, 24)
            self.layer = nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, batch_first=True)
            self.out = nn.Linear(24, 5)

        def forward(self, ids):
            return self.out(self.layer(self.embed(ids)))

    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(34):
        ids = torch.randint(40, (12, 8))
        if i == s:
            with torch.no_grad():
                model.layer.self_attn.in_proj_weight[:48] *= 40
        loss = F.cross_entropy(model(ids).flatten(0, 1), (ids % 5).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    attention_weights_loaded_in_other_units(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
