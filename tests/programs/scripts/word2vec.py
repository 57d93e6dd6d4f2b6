"""Skip-gram with negative sampling over this Python's own sources: sparse embeddings, SparseAdam, subsampled words."""

import json
import re
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
text = " ".join(path.read_text("utf-8") for path in sorted(Path(json.__file__).parent.glob("*.py")))
words = re.findall(r"[a-z]{2,}", text.lower())
counts = Counter(words)
vocabulary = [word for word, n in counts.most_common(400) if n > 1]
index = {word: i for i, word in enumerate(vocabulary)}
ids = torch.tensor([index[word] for word in words if word in index])
frequency = torch.tensor([float(counts[word]) for word in vocabulary])
keep = (1e-2 * frequency.sum() / frequency).sqrt().clamp(max=1)
ids = ids[torch.rand(len(ids)) < keep[ids]]
pairs = [(ids[: len(ids) - gap], ids[gap:]) for gap in (1, 2)]
centre, context = torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])
negatives = frequency.pow(0.75)


class SkipGram(nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.u_embeddings = nn.Embedding(size, dim, sparse=True)
        self.v_embeddings = nn.Embedding(size, dim, sparse=True)
        nn.init.uniform_(self.u_embeddings.weight, -1.0 / dim, 1.0 / dim)
        nn.init.zeros_(self.v_embeddings.weight)

    def forward(self, pos_u, pos_v, neg_v):
        u, v, n = self.u_embeddings(pos_u), self.v_embeddings(pos_v), self.v_embeddings(neg_v)
        score = F.logsigmoid((u * v).sum(1).clamp(-10, 10))
        neg_score = F.logsigmoid(-torch.bmm(n, u.unsqueeze(2)).squeeze(2).clamp(-10, 10)).sum(1)
        return -(score + neg_score).mean()


model = SkipGram(len(vocabulary), 24)
optimizer = torch.optim.SparseAdam(model.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(centre, context), batch_size=256, shuffle=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(loader) * 3)
running_loss = 0.0
for iteration in range(3):
    for i, (pos_u, pos_v) in enumerate(loader):
        neg_v = torch.multinomial(negatives, len(pos_u) * 5, replacement=True).view(-1, 5)
        optimizer.zero_grad()
        loss = model(pos_u, pos_v, neg_v)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running_loss = running_loss * 0.9 + loss.item() * 0.1
        if i % 10 == 0:
            print(iteration, i, running_loss)
near = F.normalize(model.u_embeddings.weight.detach(), dim=1)
print([vocabulary[i] for i in (near @ near[index["self"]]).topk(5).indices.tolist()])
