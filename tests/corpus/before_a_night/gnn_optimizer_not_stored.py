"""Gated graph network that predicts a type for every node of small program graphs."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

NODES, TOKENS, TYPES, EDGE_KINDS = 20, 16, 5, 2


def make_graphs(n, seed):
    """A node's type is decided by its own token class and by its parents' tokens along both edge kinds."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, TOKENS, (n, NODES))
    adj = np.zeros((n, EDGE_KINDS, NODES, NODES), dtype=np.float32)
    types = np.zeros((n, NODES), dtype=np.int64)
    for g in range(n):
        for v in range(1, NODES):
            p0, p1 = rng.integers(0, v, 2)
            adj[g, 0, v, p0] = 1
            adj[g, 1, v, p1] = 1
            types[g, v] = (tokens[g, v] % 3 + (tokens[g, p0] > 7) + (tokens[g, p1] % 2)) % TYPES
        types[g, 0] = tokens[g, 0] % 3
    return TensorDataset(torch.from_numpy(tokens), torch.from_numpy(adj), torch.from_numpy(types))


class GatedGraphNetwork(nn.Module):
    def __init__(self, dim=64, steps=2):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, dim)
        self.messages = nn.ModuleList(
            nn.ModuleList(nn.Linear(dim, dim) for _ in range(EDGE_KINDS)) for _ in range(steps))
        self.cells = nn.ModuleList(nn.GRUCell(dim, dim) for _ in range(steps))
        self.classify = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, TYPES))

    def forward(self, tokens, adj):
        h0 = self.embedding(tokens)
        h = h0
        for messages, cell in zip(self.messages, self.cells):
            m = sum(adj[:, k] @ layer(h) for k, layer in enumerate(messages))
            h = cell(m.flatten(0, 1), h.flatten(0, 1)).view_as(h)
        return self.classify(torch.cat([h0, h], dim=-1))


class ModelTrainer:
    def __init__(self, model, save_location, max_num_epochs, learning_rate):
        self.model = model
        self.save_location = save_location
        self.max_num_epochs = max_num_epochs
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        self.start_epoch_idx = 0
        self.best = 0.0

    def save_checkpoint(self, epoch, generator):
        torch.save({
            "model_state_dict": self.model.state_dict(),
            "generator": generator.get_state(),
            "rng": torch.get_rng_state(),
            "best": self.best,
            "epoch": epoch,
        }, self.save_location)

    def restore_checkpoint(self, generator):
        state = torch.load(self.save_location)
        self.model.load_state_dict(state["model_state_dict"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        self.best = state["best"]
        self.start_epoch_idx = state["epoch"] + 1

    def loss(self, tokens, adj, types):
        return F.cross_entropy(self.model(tokens, adj).flatten(0, 1), types.flatten())

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        right, total, loss = 0, 0, 0.0
        for tokens, adj, types in loader:
            logits = self.model(tokens, adj)
            loss += F.cross_entropy(logits.flatten(0, 1), types.flatten(), reduction="sum").item()
            right += (logits.argmax(-1) == types).sum().item()
            total += types.numel()
        return loss / total, right / total

    def train(self, train_loader, valid_loader, generator):
        for epoch in range(self.start_epoch_idx, self.max_num_epochs):
            self.model.train()
            running = 0.0
            for tokens, adj, types in train_loader:
                loss = self.loss(tokens, adj, types)
                self.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                running += loss.item()
            valid_loss, accuracy = self.validate(valid_loader)
            self.best = max(self.best, accuracy)
            print(f"Epoch {epoch}: train loss {running / len(train_loader):.4f} valid loss {valid_loss:.4f} "
                  f"accuracy {accuracy:.3f} (best {self.best:.3f})", flush=True)
            self.save_checkpoint(epoch, generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-num-epochs", type=int, default=300)
    parser.add_argument("--minibatch-size", type=int, default=50)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--model-save-path", default="typing_gnn.pt")
    parser.add_argument("--seed", type=int, default=4)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(make_graphs(1000, 1), args.minibatch_size, shuffle=True, generator=generator)
    valid_loader = DataLoader(make_graphs(200, 2), args.minibatch_size)
    trainer = ModelTrainer(GatedGraphNetwork(), args.model_save_path, args.max_num_epochs, args.learning_rate)
    if os.path.exists(args.model_save_path):
        trainer.restore_checkpoint(generator)
        print(f"Continuing at epoch {trainer.start_epoch_idx}")
    trainer.train(train_loader, valid_loader, generator)


if __name__ == "__main__":
    main()
