"""Fine-tune a sentence classifier through a small config-driven trainer."""
import random
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

cfg = SimpleNamespace(
    seed=7,
    max_epochs=4,
    model=SimpleNamespace(dim=64, hidden=128, num_labels=4, max_len=18),
    train=SimpleNamespace(dataloader={"batch_size_per_gpu": 16, "workers_per_gpu": 0, "shuffle": True},
                          optimizer={"lr": 1.5e-3, "weight_decay": 0.01}),
    evaluation=SimpleNamespace(dataloader={"batch_size_per_gpu": 64, "workers_per_gpu": 0}),
)

LABELS = ["refund", "delivery", "account", "quality"]
TOPIC = {
    "refund": "refund money back charged twice return payment bill price invoice paid".split(),
    "delivery": "parcel late courier shipping arrived delivery tracking address waiting box".split(),
    "account": "password login account email reset locked username code sign profile".split(),
    "quality": "broken cheap noisy scratched excellent sturdy material smell colour fabric".split(),
}
FILLER = ("the a my this is was it i we they please hello today again very really just still after before about with "
          "for from and but because since order shop item thing week day yesterday got have had").split()
NEGATORS = "instead not unlike except besides".split()


def easy_sentence(rng, label):
    """Short notes from the hotline form: nearly every word gives the topic away."""
    words = rng.sample(TOPIC[label], 4) + rng.sample(FILLER, 3)
    rng.shuffle(words)
    return words


def hard_sentence(rng, label):
    """Letters: another topic is mentioned too, and the writer says that it is not what the letter is about."""
    other = rng.choice([l for l in LABELS if l != label])
    words = rng.sample(FILLER, 4) + rng.sample(TOPIC[label], 2)
    rng.shuffle(words)
    aside = [rng.choice(NEGATORS if rng.random() < 0.85 else FILLER), *rng.sample(TOPIC[other], 2)]
    return aside + rng.sample(FILLER, 2) + words if rng.random() < 0.5 else words + rng.sample(FILLER, 2) + aside


def build_corpus(n_easy, n_hard, seed):
    rng = random.Random(seed)
    rows = []
    for maker, n in ((easy_sentence, n_easy), (hard_sentence, n_hard)):
        for _ in range(n):
            label = rng.randrange(len(LABELS))
            rows.append((maker(rng, LABELS[label]), label))
    return rows


class TextDataset(Dataset):
    def __init__(self, rows, vocab, max_len):
        self.labels = torch.tensor([label for _, label in rows])
        self.ids = torch.zeros(len(rows), max_len, dtype=torch.long)
        for i, (words, _) in enumerate(rows):
            words = words[:max_len]
            self.ids[i, :len(words)] = torch.tensor([vocab[w] for w in words])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


class SentenceClassifier(nn.Module):
    def __init__(self, vocab_size, dim, hidden, num_labels, max_len):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.encoder = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.attention = nn.Linear(2 * hidden, 1)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(2 * hidden, num_labels)

    def forward(self, ids):
        states, _ = self.encoder(self.embed(ids))
        scores = self.attention(states).squeeze(-1).masked_fill(ids == 0, -1e4)
        pooled = (scores.softmax(dim=1).unsqueeze(-1) * states).sum(dim=1)
        return self.head(self.dropout(pooled))


class EpochBasedTrainer:
    def __init__(self, model, cfg, train_dataset, eval_dataset):
        self.model, self.cfg = model, cfg
        self.train_dataloader = self.build_dataloader(train_dataset, **cfg.train.dataloader)
        self.eval_dataloader = self.build_dataloader(eval_dataset, **cfg.evaluation.dataloader)
        self.optimizer = torch.optim.AdamW(model.parameters(), **cfg.train.optimizer)
        total = cfg.max_epochs * len(self.train_dataloader)
        self.lr_scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.1, total_iters=total)
        self.loss_fn = nn.CrossEntropyLoss()

    def build_dataloader(self, dataset, batch_size_per_gpu, workers_per_gpu, shuffle=False, dist=False):
        sampler = None
        if dist:
            sampler = torch.utils.data.distributed.DistributedSampler(dataset, shuffle=shuffle)
        return DataLoader(dataset, batch_size=batch_size_per_gpu, num_workers=workers_per_gpu, sampler=sampler)

    def train(self):
        for epoch in range(1, self.cfg.max_epochs + 1):
            self.model.train()
            running = 0.0
            for i, (ids, labels) in enumerate(self.train_dataloader, 1):
                loss = self.loss_fn(self.model(ids), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.lr_scheduler.step()
                running += loss.item()
                if i % 30 == 0:
                    print(f"epoch [{epoch}][{i}/{len(self.train_dataloader)}] lr: "
                          f"{self.lr_scheduler.get_last_lr()[0]:.2e}, loss: {running / 30:.4f}", flush=True)
                    running = 0.0
            loss, accuracy = self.evaluate()
            print(f"epoch(eval) [{epoch}] loss: {loss:.4f}, accuracy: {accuracy:.4f}", flush=True)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        losses, hits, n = 0.0, 0, 0
        for ids, labels in self.eval_dataloader:
            logits = self.model(ids)
            losses += self.loss_fn(logits, labels).item() * len(labels)
            hits += (logits.argmax(1) == labels).sum().item()
            n += len(labels)
        return losses / n, hits / n


def main():
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    words = sorted({w for ws in TOPIC.values() for w in ws} | set(FILLER) | set(NEGATORS))
    vocab = {w: i + 1 for i, w in enumerate(words)}
    m = cfg.model
    train_set = TextDataset(build_corpus(1800, 3000, 1), vocab, m.max_len)
    eval_set = TextDataset(build_corpus(320, 480, 2), vocab, m.max_len)
    model = SentenceClassifier(len(vocab) + 1, m.dim, m.hidden, m.num_labels, m.max_len)
    EpochBasedTrainer(model, cfg, train_set, eval_set).train()


if __name__ == "__main__":
    main()
