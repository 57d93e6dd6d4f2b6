import csv
import os
import random
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

N_ACTIONS = 30
SEQ = 10


def write_logs(folder, n_files, rows, seed):
    """User action sequences; the next action depends on the last two."""
    rng = random.Random(seed)
    rule = random.Random(1234)
    table = {(a, b): rule.randrange(N_ACTIONS) for a in range(6) for b in range(6)}
    paths = []
    for i in range(n_files):
        path = os.path.join(folder, f"sequence_data_{i}.csv")
        with open(path, "w", newline="") as f:
            writer = csv.writer(f)
            for _ in range(rows):
                seq = [rng.randrange(N_ACTIONS) for _ in range(SEQ)]
                target = table[(seq[-1] % 6, seq[-2] % 6)]
                writer.writerow(seq + [target])
        paths.append(path)
    return paths


class StreamingDataset(IterableDataset):
    def __init__(self, paths, buffer_size=200, seed=0):
        self.paths = paths
        self.buffer_size = buffer_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _examples(self, paths):
        for path in paths:
            with open(path) as f:
                for row in csv.reader(f):
                    row = [int(v) for v in row]
                    yield torch.tensor(row[:-1]), torch.tensor(row[-1])

    def __iter__(self):
        rng = random.Random(self.seed + self.epoch)
        paths = list(self.paths)
        rng.shuffle(paths)
        buffer = []
        for example in self._examples(paths):
            if len(buffer) < self.buffer_size:
                buffer.append(example)
                continue
            j = rng.randrange(self.buffer_size)
            yield buffer[j]
            buffer[j] = example
        rng.shuffle(buffer)
        yield from buffer


class ActionModel(nn.Module):
    def __init__(self, dim=32, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(N_ACTIONS, dim)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, N_ACTIONS))

    def forward(self, x):
        return self.out(self.gru(self.emb(x))[0][:, -1])


def main():
    torch.manual_seed(14)
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "train"))
        os.makedirs(os.path.join(folder, "val"))
        train_set = StreamingDataset(write_logs(os.path.join(folder, "train"), 8, 400, seed=1))
        val_set = StreamingDataset(write_logs(os.path.join(folder, "val"), 1, 1000, seed=2))
        train_loader = DataLoader(train_set, batch_size=64, num_workers=2)
        val_loader = DataLoader(val_set, batch_size=250)

        model = ActionModel()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(4):
            train_set.set_epoch(epoch)
            model.train()
            seen, total = 0, 0.0
            for x, y in train_loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(y)
                total += loss.item() * len(y)
            model.eval()
            with torch.no_grad():
                hits = [(model(x).argmax(1) == y).float().mean().item() for x, y in val_loader]
            print(f"epoch {epoch} examples {seen} loss {total / seen:.4f} val acc {sum(hits) / len(hits):.3f}")


if __name__ == "__main__":
    main()
