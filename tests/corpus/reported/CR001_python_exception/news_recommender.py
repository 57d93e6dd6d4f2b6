import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
NUM_NEWS, TITLE_LEN, HISTORY, NEG = 400, 8, 6, 3


class MindLike(Dataset):
    """Clicked history, one clicked candidate and several impressions without click."""

    titles = None

    def __init__(self, size, seed):
        if MindLike.titles is None:
            rng = np.random.RandomState(50)
            MindLike.category = rng.randint(0, 8, NUM_NEWS)
            own = MindLike.category[:, None] * 12 + rng.randint(0, 12, (NUM_NEWS, TITLE_LEN))
            common = 96 + rng.randint(0, 64, (NUM_NEWS, TITLE_LEN))
            MindLike.titles = np.where(rng.rand(NUM_NEWS, TITLE_LEN) < 0.6, own, common)
        rng = np.random.RandomState(seed)
        by_cat = [np.where(MindLike.category == c)[0] for c in range(8)]
        self.history = np.zeros((size, HISTORY), dtype=np.int64)
        self.candidates = np.zeros((size, NEG + 1), dtype=np.int64)
        for i in range(size):
            liked = rng.choice(8, 2, replace=False)
            others = [c for c in range(8) if c not in liked]
            self.history[i] = [rng.choice(by_cat[rng.choice(liked)]) for _ in range(HISTORY)]
            self.candidates[i, 0] = rng.choice(by_cat[rng.choice(liked)])
            self.candidates[i, 1:] = [rng.choice(by_cat[rng.choice(others)]) for _ in range(NEG)]

    def __len__(self):
        return len(self.history)

    def __getitem__(self, i):
        return MindLike.titles[self.history[i]], MindLike.titles[self.candidates[i]]


class GCNLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, feature, graph):
        out = torch.bmm(graph, self.linear(feature))
        out = F.relu(out)
        out += feature
        return out


class Model(nn.Module):
    def __init__(self, vocab=160, dim=48):
        super().__init__()
        self.word_embedding = nn.Embedding(vocab, dim)
        self.news_fc = nn.Linear(dim, dim)
        self.gcn = nn.ModuleList([GCNLayer(dim) for _ in range(2)])
        self.query = nn.Linear(dim, dim)

    def encode_news(self, titles):
        return torch.tanh(self.news_fc(self.word_embedding(titles).mean(dim=-2)))

    def forward(self, history, candidates):
        h, c = self.encode_news(history), self.encode_news(candidates)
        graph = torch.softmax(torch.bmm(h, h.transpose(1, 2)) / h.size(-1) ** 0.5, dim=-1)
        for layer in self.gcn:
            h = layer(h, graph)
        att = torch.softmax(torch.bmm(self.query(c), h.transpose(1, 2)) / h.size(-1) ** 0.5, dim=-1)
        user = torch.bmm(att, h)
        return (user * c).sum(dim=-1) / h.size(-1) ** 0.5


class Trainer:
    def __init__(self, model, train_set, dev_set, lr=3e-3, epoch=3):
        self.model, self.epoch = model, epoch
        self.train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
        self.dev_loader = DataLoader(dev_set, batch_size=100)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    @staticmethod
    def negative_log_softmax(logits):
        return -torch.log_softmax(logits, dim=1)[:, 0].mean()

    def train(self):
        for e in range(1, self.epoch + 1):
            self.model.train()
            epoch_loss = 0.0
            for history, candidates in self.train_loader:
                loss = self.negative_log_softmax(self.model(history, candidates))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                epoch_loss += loss.item()
            print("Epoch %d : train loss %.4f" % (e, epoch_loss / len(self.train_loader)), "dev loss %.4f hit@1 %.3f" % self.evaluate())

    def evaluate(self):
        self.model.eval()
        loss, hit = [], []
        with torch.no_grad():
            for history, candidates in self.dev_loader:
                logits = self.model(history, candidates)
                loss.append(self.negative_log_softmax(logits).item())
                hit.append((logits.argmax(1) == 0).float().mean().item())
        return float(np.mean(loss)), float(np.mean(hit))


if __name__ == "__main__":
    torch.manual_seed(2022)
    Trainer(Model(), MindLike(1920, 1), MindLike(300, 2)).train()
