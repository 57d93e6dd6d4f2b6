import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

torch.set_num_threads(1)

EPOCHS = 12
BATCH_SIZE = 16
N_TAGS = 12
TAG_WEIGHTS = [0.5] + [1.0] * (N_TAGS - 1)
VOCAB = 120
MAX_LEN = 16


class GermEvalDataset(Dataset):
    """Token ids and one tag per token; tag 0 is outside, tag k has its own trigger words."""

    def __init__(self, n, seed, rare=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randint(60, VOCAB, (n, MAX_LEN), generator=g)
        self.y = torch.zeros(n, MAX_LEN, dtype=torch.long)
        for i in range(n):
            for _ in range(4):
                pos = int(torch.randint(0, MAX_LEN - 1, (1,), generator=g))
                tag = int(torch.randint(1, 12, (1,), generator=g))
                self.x[i, pos] = tag * 4 + int(torch.randint(0, 4, (1,), generator=g))
                self.x[i, pos + 1] = 56 + int(torch.randint(0, 4, (1,), generator=g))
                self.y[i, pos:pos + 2] = tag
        for i in range(rare):
            self.x[i, 3], self.y[i, 3] = 50, 12

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class BoundaryTagger(nn.Module):
    def __init__(self, n_tags, emb=32, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, emb)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(2 * hidden, n_tags)

    def forward(self, x):
        h, _ = self.lstm(self.embedding(x))
        return self.fc(self.dropout(h))


def evaluate(model, loader):
    model.eval()
    hit = total = 0
    with torch.no_grad():
        for x, y in loader:
            keep = y > 0
            hit += ((model(x).argmax(-1) == y) & keep).sum().item()
            total += keep.sum().item()
    model.train()
    return hit / total


def train():
    torch.manual_seed(5)
    train_set = GermEvalDataset(800, 1, rare=2)
    dev_loader = DataLoader(GermEvalDataset(150, 2), batch_size=50)
    loader = DataLoader(train_set, BATCH_SIZE, sampler=RandomSampler(train_set, num_samples=160, generator=torch.Generator().manual_seed(22)))
    model = BoundaryTagger(N_TAGS)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor(TAG_WEIGHTS))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = 0
    for epoch in range(EPOCHS):
        total = 0.0
        for x, y in loader:
            out = model(x)
            loss = criterion(out.reshape(-1, N_TAGS), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            step += 1
        print(f"epoch {epoch}: step {step} loss {total / len(loader):.4f}, dev entity accuracy {evaluate(model, dev_loader):.3f}", flush=True)


if __name__ == "__main__":
    train()
