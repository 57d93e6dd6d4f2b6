import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class VisionTower(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.pos = nn.Parameter(torch.randn(1, 9, dim) * 0.1)
        layer = nn.TransformerEncoderLayer(dim, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, images):
        h = self.patch(images).flatten(2).transpose(1, 2) + self.pos
        return self.encoder(h)


class Connector(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.proj = nn.Sequential(nn.Linear(d_in, d_out), nn.GELU(), nn.Linear(d_out, d_out))

    def forward(self, x):
        return self.proj(x)


class TinyVLM(nn.Module):
    def __init__(self, vocab=24, dim=64):
        super().__init__()
        self.vision_tower = VisionTower(dim)
        self.mm_projector = Connector(dim, dim)
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.language_model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.lm_head = nn.Linear(dim, vocab)

    def forward(self, images, question):
        tokens = torch.cat([self.mm_projector(self.vision_tower(images)), self.embed(question)], dim=1)
        return self.lm_head(self.language_model(tokens)[:, -1])


def make_vqa(n, seed):
    protos = torch.randn(8, 3, 12, 12, generator=torch.Generator().manual_seed(6))
    g = torch.Generator().manual_seed(seed)
    obj = torch.randint(0, 8, (n,), generator=g)
    q = torch.randint(0, 3, (n,), generator=g)
    images = protos[obj] + 1.2 * torch.randn(n, 3, 12, 12, generator=g)
    answer = torch.stack([obj, 8 + obj % 2, 10 + obj // 4], 1).gather(1, q[:, None]).squeeze(1)
    question = torch.stack([torch.full_like(q, 20), 21 + q], 1)
    return TensorDataset(images / 1.56, question, answer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune_vision_tower", type=lambda s: s.lower() == "true", default=True)
    parser.add_argument("--learning_rate", type=float, default=5e-4)
    parser.add_argument("--num_train_epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(42)
    model = TinyVLM()
    model.vision_tower.requires_grad_(args.tune_vision_tower)
    trainable = [p for p in model.parameters() if p.requires_grad]
    print("trainable parameters", sum(p.numel() for p in trainable))
    optimizer = torch.optim.AdamW(trainable, lr=args.learning_rate, weight_decay=0.0)
    train_loader = DataLoader(make_vqa(1280, 1), batch_size=32, shuffle=True)
    eval_loader = DataLoader(make_vqa(320, 2), batch_size=64)
    total_steps = len(train_loader) * args.num_train_epochs
    warmup = 20
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: (s + 1) / warmup if s < warmup else max(0.0, (total_steps - s) / (total_steps - warmup)))

    for epoch in range(args.num_train_epochs):
        model.train()
        running = 0.0
        for images, question, answer in train_loader:
            loss = F.cross_entropy(model(images, question), answer)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
        model.eval()
        ev, hit, n = 0.0, 0, 0
        with torch.no_grad():
            for images, question, answer in eval_loader:
                out = model(images, question)
                ev += F.cross_entropy(out, answer, reduction="sum").item()
                hit += (out.argmax(1) == answer).sum().item()
                n += len(answer)
        print({"epoch": epoch, "loss": round(running / len(train_loader), 4), "eval_loss": round(ev / n, 4),
               "eval_acc": round(hit / n, 4)})


if __name__ == "__main__":
    main()
