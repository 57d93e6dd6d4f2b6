"""
Fine-tune static token embeddings with a small head.

Task: tell from a few lines of source which part of the standard library they come from.
"""
from __future__ import annotations

import argparse
import logging
import random
import re
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger("static")
PACKAGES = ["asyncio", "email", "unittest", "json", "logging", "multiprocessing", "xml", "http",
            "concurrent", "importlib", "urllib", "ctypes", "encodings", "html", "collections", "wsgiref"]
TOKEN = re.compile(r"[A-Za-z_]+|\d|[^\sA-Za-z_\d]")


class Tokenizer:
    """Word-piece-free tokenizer with the special tokens of XLM-R."""

    specials = ["<s>", "<pad>", "</s>", "<unk>"]

    def __init__(self, texts: list[str], max_vocab: int) -> None:
        counts = Counter(t for text in texts for t in TOKEN.findall(text))
        words = [w for w, c in sorted(counts.items(), key=lambda x: (-x[1], x[0])) if c > 1][: max_vocab - len(self.specials)]
        self.vocab = {w: i for i, w in enumerate(self.specials + words)}
        self.pad_id = self.vocab["<pad>"]
        self.unk_id = self.vocab["<unk>"]

    def encode(self, text: str, max_length: int = 256) -> list[int]:
        ids = [self.vocab.get(t, self.unk_id) for t in TOKEN.findall(text)][: max_length - 2]
        return [self.vocab["<s>"], *ids, self.vocab["</s>"]]


def read_snippets(rng: random.Random, per_package: int) -> list[tuple[str, int]]:
    """Cut windows of one to fifteen lines out of the sources."""
    root = Path(sysconfig.get_paths()["stdlib"])
    out: list[tuple[str, int]] = []
    for label, package in enumerate(PACKAGES):
        windows = []
        for path in sorted((root / package).rglob("*.py")):
            if "test" in path.parts or "tests" in path.parts:
                continue
            lines = [ln.strip() for ln in path.read_text(errors="ignore").splitlines()]
            lines = [ln for ln in lines if len(ln) > 8 and not ln.startswith("#")]
            i = 0
            while i < len(lines):
                n = rng.choice([1, 1, 2, 3, 5, 8, 15])
                windows.append("\n".join(lines[i:i + n]))
                i += n
        rng.shuffle(windows)
        out.extend((w, label) for w in windows[:per_package])
    rng.shuffle(out)
    return out


class TextDataset(Dataset):
    def __init__(self, tokenized_texts: list[list[int]], targets: torch.Tensor) -> None:
        self.tokenized_texts = tokenized_texts
        self.targets = targets

    def __len__(self) -> int:
        return len(self.tokenized_texts)

    def __getitem__(self, index: int) -> tuple[list[int], torch.Tensor]:
        return self.tokenized_texts[index], self.targets[index]

    @staticmethod
    def collate_fn(batch: list[tuple[list[int], torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
        texts, targets = zip(*batch)
        tensors = [torch.tensor(x, dtype=torch.long) for x in texts]
        padded = pad_sequence(tensors, batch_first=True, padding_value=0)
        return padded, torch.stack(targets)

    def to_dataloader(self, shuffle: bool, batch_size: int) -> DataLoader:
        return DataLoader(self, collate_fn=self.collate_fn, shuffle=shuffle, batch_size=batch_size)


class FinetunableStaticModel(nn.Module):
    def __init__(self, tokenizer: Tokenizer, out_dim: int, dim: int = 256, hidden_dim: int = 512) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.pad_id = tokenizer.pad_id
        self.embeddings = nn.Embedding(len(tokenizer.vocab), dim, padding_idx=self.pad_id)
        self.w = nn.Parameter(torch.zeros(len(tokenizer.vocab)))
        self.head = nn.Sequential(nn.Linear(dim, hidden_dim), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden_dim, out_dim))

    def _encode(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Weighted mean of the token vectors, padding excluded."""
        zeros = (input_ids != self.pad_id).float()
        w = torch.sigmoid(self.w[input_ids]) * zeros
        length = zeros.sum(1).clamp(min=1)
        embedded = self.embeddings(input_ids)
        embedded = torch.bmm(w[:, None, :], embedded).squeeze(1)
        embedded = embedded / length[:, None]
        return nn.functional.normalize(embedded, dim=1) * embedded.size(1) ** 0.5

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self._encode(input_ids))

    def tokenize(self, texts: list[str]) -> torch.Tensor:
        ids = [torch.tensor(self.tokenizer.encode(t)) for t in texts]
        return pad_sequence(ids, batch_first=True, padding_value=self.pad_id)

    @torch.no_grad()
    def predict(self, texts: list[str], batch_size: int = 256) -> torch.Tensor:
        self.eval()
        return torch.cat([self(self.tokenize(texts[i:i + batch_size])).argmax(1) for i in range(0, len(texts), batch_size)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-package", type=int, default=1500)
    parser.add_argument("--max-vocab", type=int, default=12000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--max-epochs", type=int, default=500)
    parser.add_argument("--eval-every", type=int, default=2)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", type=Path, default=Path("static_model"))
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")

    rng = random.Random(args.seed)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    snippets = list(dict.fromkeys(read_snippets(rng, args.per_package)))
    seen: dict[str, int] = {}
    snippets = [(t, y) for t, y in snippets if seen.setdefault(t, y) == y]
    n_val = len(snippets) // 10
    val, train = snippets[:n_val], snippets[n_val:]
    tokenizer = Tokenizer([t for t, _ in train], args.max_vocab)
    logger.info("%d training snippets, %d validation snippets, vocabulary %d", len(train), len(val), len(tokenizer.vocab))

    model = FinetunableStaticModel(tokenizer, len(PACKAGES))
    dataset = TextDataset([tokenizer.encode(t) for t, _ in train], torch.tensor([y for _, y in train]))
    loader = dataset.to_dataloader(shuffle=True, batch_size=args.batch_size)
    val_texts, val_targets = [t for t, _ in val], torch.tensor([y for _, y in val])

    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.learning_rate * 2, total_steps=args.max_epochs * len(loader),
                                                    pct_start=0.05)
    args.output.mkdir(exist_ok=True, parents=True)
    best = 0.0
    for epoch in range(args.max_epochs):
        model.train()
        losses = []
        for step, (input_ids, targets) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(input_ids), targets, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if step % 40 == 0:
                logger.info("epoch %d step %d/%d loss %.4f", epoch, step, len(loader), float(np.mean(losses[-40:])))
        if (epoch + 1) % args.eval_every == 0:
            accuracy = (model.predict(val_texts) == val_targets).float().mean().item()
            logger.info("epoch %d loss %.4f validation accuracy %.4f", epoch, float(np.mean(losses)), accuracy)
            if accuracy > best:
                best = accuracy
                torch.save({"state_dict": model.state_dict(), "vocab": tokenizer.vocab}, args.output / "model.pt")


if __name__ == "__main__":
    main()
