import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

VOCAB, STEPS, START = 20, 6, 0


def recipes(n, seed):
    rng = np.random.RandomState(seed)
    proj = np.random.RandomState(3).randn(6, 4, 32).astype(np.float32)
    kinds = rng.randint(0, 4, (n, 6))
    img = sum(proj[t, kinds[:, t]] for t in range(6)) / np.sqrt(6) + 0.15 * rng.randn(n, 32)
    words = kinds + 1 + 3 * np.arange(6)[None]
    return TensorDataset(torch.from_numpy(img.astype(np.float32)), torch.from_numpy(words).long())


class DecoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.cell = nn.GRUCell(dim * 2, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, word, context, state):
        state = self.cell(torch.cat([word, context], 1), state)
        return self.norm(state), state


class InstructionDecoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.layer = DecoderLayer(dim)
        self.linear = nn.Linear(dim, VOCAB)

    def forward(self, features, captions):
        state = features
        inputs = torch.cat([torch.full_like(captions[:, :1], START), captions[:, :-1]], 1)
        logits = []
        for t in range(inputs.size(1)):
            out, state = self.layer(self.embed(inputs[:, t]), features, state)
            logits.append(self.linear(out))
        logits = torch.stack(logits, 1).data
        return logits

    @torch.no_grad()
    def sample(self, features, steps):
        word = torch.full((len(features),), START)
        state, ids = features, []
        for _ in range(steps):
            out, state = self.layer(self.embed(word), features, state)
            word = self.linear(out).argmax(1)
            ids.append(word)
        return torch.stack(ids, 1)


class InverseCooking(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.image_encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, dim), nn.Tanh())
        self.recipe_decoder = InstructionDecoder(dim)

    def forward(self, img, captions):
        logits = self.recipe_decoder(self.image_encoder(img), captions)
        return F.cross_entropy(logits.reshape(-1, VOCAB), captions.reshape(-1))


def main():
    torch.manual_seed(4)
    train_loader = DataLoader(recipes(2400, 1), batch_size=48, shuffle=True)
    val_loader = DataLoader(recipes(400, 2), batch_size=200)
    model = InverseCooking()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for img, captions in train_loader:
            loss = model(img, captions)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        hits = n = 0
        with torch.no_grad():
            for img, captions in val_loader:
                ids = model.recipe_decoder.sample(model.image_encoder(img), STEPS)
                hits += (ids == captions).sum().item()
                n += captions.numel()
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} word accuracy {hits / n:.3f}")


if __name__ == "__main__":
    main()
