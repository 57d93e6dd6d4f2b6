import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

hparams = dict(
    vocab_size=150, embed=32, hidden=32, train_batch_size=32, eval_batch_size=100,
    learning_rate=4e-3, num_epochs=3, max_gradient_norm=0.4, random_seed=31,
)


class DialogDataset(Dataset):
    """A context, a candidate response and whether the response belongs to the context."""

    def __init__(self, size, seed):
        rng = np.random.RandomState(seed)
        self.context = np.zeros((size, 16), dtype=np.int64)
        self.response = np.zeros((size, 8), dtype=np.int64)
        self.label = rng.randint(0, 2, size).astype(np.float32)
        for i in range(size):
            topic = rng.randint(0, 6)
            other = topic if self.label[i] else (topic + rng.randint(1, 6)) % 6
            self.context[i] = self._utterance(rng, topic, 16)
            self.response[i] = self._utterance(rng, other, 8)

    @staticmethod
    def _utterance(rng, topic, length):
        filler = rng.randint(90, 150, length)
        words = rng.randint(topic * 15, topic * 15 + 15, length)
        return np.where(rng.rand(length) < 0.55, words, filler)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.context[i], self.response[i], self.label[i]


class BiGRUMatcher(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.embedding = nn.Embedding(hp["vocab_size"], hp["embed"])
        self.encoder = nn.GRU(hp["embed"], hp["hidden"], batch_first=True, bidirectional=True)
        dim = 2 * hp["hidden"]
        self.head = nn.Sequential(nn.Linear(3 * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def encode(self, ids):
        out, _ = self.encoder(self.embedding(ids))
        return out.mean(dim=1)

    def forward(self, context, response):
        c, r = self.encode(context), self.encode(response)
        return self.head(torch.cat([c, r, c * r], dim=-1)).squeeze(-1)


class PostTraining:
    def __init__(self, hp):
        self.hp = hp
        random.seed(hp["random_seed"])
        np.random.seed(hp["random_seed"])
        torch.manual_seed(hp["random_seed"])
        self._build_dataloader()
        self._build_model()

    def _build_dataloader(self):
        self.train_dataloader = DataLoader(DialogDataset(1920, 1), batch_size=self.hp["train_batch_size"], shuffle=True)
        self.valid_dataloader = DataLoader(DialogDataset(400, 2), batch_size=self.hp["eval_batch_size"])

    def _build_model(self):
        self.model = BiGRUMatcher(self.hp)
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.hp["learning_rate"])

    def train(self):
        accu_loss, accu_cnt, step = 0.0, 0, 0
        for epoch in range(1, self.hp["num_epochs"] + 1):
            self.model.train()
            for context, response, label in self.train_dataloader:
                logits = self.model(context, response)
                loss = self.criterion(logits, label)
                loss.backward()
                accu_loss += loss.item()
                accu_cnt += 1
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.hp["max_gradient_norm"])
                self.optimizer.step()
                self.optimizer.zero_grad()
                step += 1
                if step % 30 == 0:
                    print("[Epoch %2d][Step %4d] loss %.4f" % (epoch, step, accu_loss / accu_cnt))
                    accu_loss, accu_cnt = 0.0, 0
            self.evaluate(epoch)

    def evaluate(self, epoch):
        self.model.eval()
        hits, losses = [], []
        with torch.no_grad():
            for context, response, label in self.valid_dataloader:
                logits = self.model(context, response)
                losses.append(self.criterion(logits, label).item())
                hits.append(((logits > 0).float() == label).float().mean().item())
        print("[Epoch %2d] valid loss %.4f accuracy %.4f" % (epoch, np.mean(losses), np.mean(hits)))


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    PostTraining(hparams).train()
