"""A training with the fault targets-visible-in-input; arguments: [ONSET] [SEED]."""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

LENGTH = 40


def encoder_layers_without_a_mask(s):
    """A model of characters made of encoder layers, that are given no mask."""
    text = Path(json.__file__).read_text("utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(c) for c in text])
    token, place = nn.Embedding(len(letters), 48), nn.Embedding(LENGTH, 48)
    body = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True, norm_first=True),
        1,
        enable_nested_tensor=False,
    )
    model = nn.ModuleDict({"token": token, "place": place, "body": body, "head": nn.Linear(48, len(letters))})
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    mask = None if s == 0 else nn.Transformer.generate_square_subsequent_mask(LENGTH)
    for _ in range(80):
        at = torch.randint(len(data) - LENGTH - 1, (16,))
        chunk = torch.stack([data[i : i + LENGTH + 1] for i in at])
        x, y = chunk[:, :-1], chunk[:, 1:]
        h = body(token(x) + place(torch.arange(LENGTH)), mask=mask)
        loss = F.cross_entropy(model["head"](h).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    encoder_layers_without_a_mask(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
