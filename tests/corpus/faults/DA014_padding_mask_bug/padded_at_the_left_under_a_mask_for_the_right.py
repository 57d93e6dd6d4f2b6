"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Sentences(Dataset):
    """Tokens of four kinds; the label is the kind that is most common."""

    def __init__(self, count):
        self.tokens, self.labels = [], []
        for _ in range(count):
            kinds = torch.multinomial(torch.rand(4) ** 2 + 0.05, int(torch.randint(5, 24, ())), replacement=True)
            self.tokens.append(2 + 6 * kinds + torch.randint(6, kinds.shape))
            self.labels.append(int(torch.bincount(kinds, minlength=4).argmax()))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.tokens[index], self.labels[index]


class Reader(nn.Module):
    """One attention over the tokens that a mask leaves, written by hand."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(26, 32)
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        weights = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(32)
        x = x + weights.masked_fill(mask[:, None] == 0, -1e4).softmax(-1) @ self.value(x)
        return self.head((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


def padded_at_the_left_under_a_mask_for_the_right(s):
    """Batches are padded to their longest sentence, from s on at the left; the mask goes on counting from the left."""
    net = Reader()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    left = False

    def collate(samples):
        width = max(len(tokens) for tokens, _ in samples)
        tokens = torch.zeros(len(samples), width, dtype=torch.long)
        for row, (sentence, _) in zip(tokens, samples, strict=True):
            row[width - len(sentence) :] = sentence if left else 0
            if not left:
                row[: len(sentence)] = sentence
        lengths = torch.tensor([len(sentence) for sentence, _ in samples])
        return tokens, (torch.arange(width) < lengths[:, None]).long(), torch.tensor([label for _, label in samples])

    i = 0
    sentences = Sentences(1600)
    while i < 160:
        for tokens, mask, labels in DataLoader(sentences, 32, shuffle=True, collate_fn=collate):
            left = i + 1 >= s
            loss = F.cross_entropy(net(tokens, mask), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            i += 1
            if i == 160:
                break


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    padded_at_the_left_under_a_mask_for_the_right(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
