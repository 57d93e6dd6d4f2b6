"""Sentence classifier on top of a trained token encoder."""
from typing import Dict, Optional

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
VOCAB, LENGTH = 100, 16


class TokenEncoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, dim)
        self.position = nn.Embedding(LENGTH, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.embeddings(ids) + self.position.weight
        return self.norm(self.layer(x)).mean(dim=1)


class BertForClassification(nn.Module):
    def __init__(self, bert_model: nn.Module, num_labels: int, dim: int = 48, trainable: bool = True) -> None:
        super().__init__()
        self.bert_model = bert_model
        self.bert_model.requires_grad = trainable
        self._classification_layer = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, num_labels))
        self._loss = nn.CrossEntropyLoss()

    def forward(self, tokens: torch.Tensor, label: Optional[torch.Tensor] = None) -> Dict[str, torch.Tensor]:
        logits = self._classification_layer(self.bert_model(tokens))
        output = {"logits": logits}
        if label is not None:
            output["loss"] = self._loss(logits, label)
        return output


def sentences(n, seed, relabel=None):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=gen)
    own = y[:, None] * 10 + torch.randint(0, 10, (n, LENGTH), generator=gen)
    other = torch.randint(0, VOCAB, (n, LENGTH), generator=gen)
    ids = torch.where(torch.rand(n, LENGTH, generator=gen) < 0.4, own, other)
    return TensorDataset(ids, y if relabel is None else torch.tensor(relabel)[y])


class Trainer:
    def __init__(self, model, train_data, validation_data, lr, num_epochs):
        self.model, self.num_epochs = model, num_epochs
        self.loader = DataLoader(train_data, batch_size=32, shuffle=True)
        self.validation = validation_data
        params = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        print("Number of trainable parameters:", sum(p.numel() for _, p in params))
        self.optimizer = torch.optim.Adam([p for _, p in params], lr=lr)

    def train(self, tag):
        for epoch in range(self.num_epochs):
            self.model.train()
            total = 0.0
            for tokens, label in self.loader:
                loss = self.model(tokens, label)["loss"]
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            self.model.eval()
            with torch.no_grad():
                tokens, label = self.validation.tensors
                out = self.model(tokens, label)
                acc = (out["logits"].argmax(1) == label).float().mean().item()
            print(f"{tag} epoch {epoch}: loss {total / len(self.loader):.4f} validation loss {out['loss'].item():.4f} accuracy {acc:.3f}")


if __name__ == "__main__":
    torch.manual_seed(9)
    encoder = TokenEncoder()
    source = BertForClassification(encoder, num_labels=6)
    Trainer(source, sentences(1920, 1), sentences(300, 2), lr=2e-3, num_epochs=2).train("source")

    groups = [0, 1, 2, 0, 1, 2]
    target = BertForClassification(encoder, num_labels=3, trainable=False)
    before = encoder.embeddings.weight.detach().clone()
    Trainer(target, sentences(1920, 3, groups), sentences(300, 4, groups), lr=3e-3, num_epochs=2).train("target")
    print("encoder moved by", (encoder.embeddings.weight - before).norm().item())
