"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def sentences(n=800, words=60, classes=4):
    lengths = torch.randint(4, 14, (n,))
    ids = torch.randint(classes + 1, words, (n, 14))
    ids[torch.arange(14) >= lengths[:, None]] = 0
    y = torch.randint(classes, (n,))
    ids[:, 1] = y + 1
    return ids, lengths, y


def steps_of(loader, count):
    done = 0
    while done < count:
        for batch in loader:
            yield done, batch
            done += 1
            if done == count:
                return


def mask_inverted(s):
    """From some step on the key padding mask of an encoder says which tokens are real, and not which are padding."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 4)

        def forward(self, ids, mask):
            h = self.encoder(self.embed(ids), src_key_padding_mask=mask)
            return self.head(h[:, 0])

    ids, lengths, y = sentences()
    ids[:, 2:] = torch.where(ids[:, 2:] > 0, ids[:, 2:].clamp(min=6), 0)
    model = Classifier()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for step, (a, _, b) in steps_of(DataLoader(TensorDataset(ids, lengths, y), 32, shuffle=True), 110):
        mask = a != 0 if step >= s else a == 0
        loss = F.cross_entropy(model(a, mask), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    mask_inverted(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
