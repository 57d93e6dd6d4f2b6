"""Click prediction from a columnar file with a batch loader over chunks."""
import numpy as np
import torch
import torch.nn as nn

CAT_SIZES = {"user_group": 12, "item_category": 20, "device": 4}
CONTS = ["age", "price", "hour"]


def make_frame(rows, seed):
    """The log as the exporter writes it: grouped by item category."""
    table = np.random.default_rng(2020)
    category_taste = table.normal(0, 1.2, CAT_SIZES["item_category"])
    group_taste = table.normal(0, 0.8, CAT_SIZES["user_group"])
    rng = np.random.default_rng(seed)
    frame = {name: rng.integers(0, size, rows) for name, size in CAT_SIZES.items()}
    frame["item_category"] = np.sort(frame["item_category"])
    for name in CONTS:
        frame[name] = rng.normal(0, 1, rows).astype(np.float32)
    score = (category_taste[frame["item_category"]] + group_taste[frame["user_group"]]
             + 1.2 * frame["price"] * (frame["device"] % 2 * 2 - 1) - 0.6 * frame["age"])
    frame["click"] = (rng.random(rows) < 1 / (1 + np.exp(-2 * score))).astype(np.float32)
    return frame


class BatchDataset:
    """Yields whole batches of (cats, conts, label) from a frame."""

    def __init__(self, frame, batch_size, shuffle=True, seed=0):
        self.cats = torch.from_numpy(np.stack([frame[c] for c in CAT_SIZES], 1))
        self.conts = torch.from_numpy(np.stack([frame[c] for c in CONTS], 1))
        self.labels = torch.from_numpy(frame["click"])
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self):
        return -(-len(self.labels) // self.batch_size)

    def _shuffled(self, indices):
        return indices[torch.randperm(len(indices), generator=self.generator)]

    def __iter__(self):
        indices = torch.arange(len(self.labels))
        if self.shuffle:
            indices = self._shuffled(indices)
        for chunk in indices.split(self.batch_size):
            yield self.cats[chunk], self.conts[chunk], self.labels[chunk]


class TabularModel(nn.Module):
    def __init__(self, emb=8, hidden=(64, 32), dropout=0.05):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(size, emb) for size in CAT_SIZES.values()])
        for table in self.embeds:
            nn.init.normal_(table.weight, std=0.3)
        dims = [emb * len(CAT_SIZES) + len(CONTS), *hidden]
        layers = []
        for a, b in zip(dims, dims[1:]):
            layers += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(dims[-1], 1))

    def forward(self, cats, conts):
        vectors = [table(cats[:, i]) for i, table in enumerate(self.embeds)]
        return self.layers(torch.cat([*vectors, conts], 1)).squeeze(1)


def process_epoch(dataset, model, train=False, optimizer=None, loss_func=nn.BCEWithLogitsLoss()):
    model.train(mode=train)
    with torch.set_grad_enabled(train):
        losses, right, count = [], 0, 0
        for cats, conts, y in dataset:
            logits = model(cats, conts)
            loss = loss_func(logits, y)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.item() * len(y))
            right += ((logits > 0).float() == y).sum().item()
            count += len(y)
    return sum(losses) / count, right / count


def main():
    torch.manual_seed(818)
    train_dataset = BatchDataset(make_frame(12800, 1), batch_size=256, shuffle=True)
    valid_dataset = BatchDataset(make_frame(2560, 2), batch_size=512, shuffle=False)
    model = TabularModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        train_loss, train_acc = process_epoch(train_dataset, model, train=True, optimizer=optimizer)
        valid_loss, valid_acc = process_epoch(valid_dataset, model)
        print(f"Epoch {epoch:02d}. Train loss: {train_loss:.4f} acc: {train_acc:.3f}. "
              f"Valid loss: {valid_loss:.4f} acc: {valid_acc:.3f}.")


if __name__ == "__main__":
    main()
