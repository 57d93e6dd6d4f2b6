"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.out = nn.Embedding(24, 16), nn.Linear(16, 48), nn.Linear(16, 24)
        self.keys, self.values = [], []

    def forward(self, ids):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
        if not self.training:
            self.keys.append(k)
            self.values.append(v)
            k, v = torch.cat(self.keys, 1), torch.cat(self.values, 1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.training))


def keys_and_values_while_it_speaks():
    model = Speaker()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    text = torch.arange(400) % 7 + torch.randint(2, (400,))
    for i in range(48):
        at = torch.randint(380, (8,)).tolist()
        ids = torch.stack([text[n : n + 17] for n in at])
        loss = F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 12 == 11:
            model.eval()
            said = ids[:1, :1]
            with torch.no_grad():
                for _ in range(20):
                    said = model(said)[:, -1:].argmax(-1)
            model.keys.clear()
            model.values.clear()
            model.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    keys_and_values_while_it_speaks()
