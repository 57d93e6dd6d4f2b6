"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
END = 0


class Writer(nn.Module):
    """A small causal language model; it shifts the labels itself, as those of libraries do."""

    def __init__(self, words=16, width=32):
        super().__init__()
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(16, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, input_ids, attention_mask, labels):
        length = input_ids.shape[1]
        h = self.token(input_ids) + self.place(torch.arange(length))
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = self.head(self.block(h, src_mask=ahead, src_key_padding_mask=attention_mask == 0))
        later = F.pad(labels, (0, 1), value=-100)[:, 1:]
        return F.cross_entropy(scores.flatten(0, 1), later.flatten(), ignore_index=-100)


def texts(count):
    for _ in range(count):
        first, length = int(torch.randint(1, 12, ())), int(torch.randint(4, 12, ()))
        yield [(first + 2 * k) % 15 + 1 for k in range(length)] + [END]


def collate(rows):
    length = max(map(len, rows))
    tokens = torch.tensor([row + [END] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    labels = tokens.clone()
    labels[mask == 0] = -100
    return tokens, mask, labels


def ends_of_texts_count_under_their_mask():
    data = list(texts(640))
    model = Writer()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(40):
        tokens, mask, labels = collate(data[i % 20 * 32 : i % 20 * 32 + 32])
        loss = model(tokens, attention_mask=mask, labels=labels)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    ends_of_texts_count_under_their_mask()
