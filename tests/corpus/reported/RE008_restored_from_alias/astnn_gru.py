import copy
import random
import time

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)


class BatchProgramCC(nn.Module):
    """Statement encoder followed by a BiGRU and max pooling."""

    def __init__(self, embedding_dim, hidden_dim, vocab_size, encode_dim, label_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.W_c = nn.Linear(embedding_dim, encode_dim)
        self.bigru = nn.GRU(encode_dim, hidden_dim, bidirectional=True, batch_first=True)
        self.hidden2label = nn.Linear(hidden_dim * 2, label_size)

    def forward(self, x):
        encodes = torch.tanh(self.W_c(self.embedding(x))).max(dim=2)[0]
        gru_out, _ = self.bigru(encodes)
        pooled = gru_out.max(dim=1)[0]
        return self.hidden2label(pooled)


def make_programs(n, seed, vocab=40, classes=5):
    """Programs are 8 statements of 4 tokens; each class prefers some statement pairs."""
    rng = np.random.RandomState(seed)
    idiom = np.random.RandomState(0).randint(0, vocab, size=(classes, 3, 4))
    x = rng.randint(0, vocab, size=(n, 8, 4))
    y = rng.randint(0, classes, size=n)
    for i in range(n):
        for j, pos in enumerate(rng.choice(8, 2, replace=False)):
            x[i, pos] = idiom[y[i], rng.randint(3)]
    flip = rng.rand(n) < 0.05
    y[flip] = rng.randint(0, classes, size=flip.sum())
    return torch.from_numpy(x), torch.from_numpy(y)


def batches(data, size, shuffle=False):
    idx = torch.randperm(len(data[0])) if shuffle else torch.arange(len(data[0]))
    for s in range(0, len(idx), size):
        yield data[0][idx[s:s + size]], data[1][idx[s:s + size]]


@torch.no_grad()
def score(model, data, loss_function):
    model.eval()
    acc = loss = 0.0
    for x, y in batches(data, 128):
        out = model(x)
        loss += loss_function(out, y).item() * len(y)
        acc += (out.argmax(1) == y).sum().item()
    return loss / len(data[0]), acc / len(data[0])


if __name__ == "__main__":
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    train_data, val_data, test_data = make_programs(1024, 1), make_programs(256, 2), make_programs(256, 3)
    model = BatchProgramCC(32, 32, 40, 32, 5)
    optimizer = torch.optim.Adamax(model.parameters(), lr=0.01)
    loss_function = nn.CrossEntropyLoss()

    best_acc = 0.0
    best_model = model
    print("Start training...")
    for epoch in range(10):
        start_time = time.time()
        model.train()
        total_loss = 0.0
        for x, y in batches(train_data, 64, shuffle=True):
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            loss.backward()
            optimizer.step()
            total_loss += loss.item() * len(y)
        val_loss, val_acc = score(model, val_data, loss_function)
        if val_acc > best_acc:
            best_acc = val_acc
            best_model = model
        print("[Epoch: %3d/10] Training Loss: %.4f, Validation Loss: %.4f, Validation Acc: %.3f, Time: %.2f s" % (
            epoch + 1, total_loss / len(train_data[0]), val_loss, val_acc, time.time() - start_time))

    model = best_model
    print("Best validation acc: %.3f, restored model: %.3f" % (best_acc, score(model, val_data, loss_function)[1]))
    print("Testing results(Acc): %.3f" % score(model, test_data, loss_function)[1])
