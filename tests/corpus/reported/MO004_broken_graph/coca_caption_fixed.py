import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

VOCAB = ["<s>", "red", "green", "blue", "left", "right", "top", "bottom", "disc", "square", "bar"]
TOK = {w: i for i, w in enumerate(VOCAB)}


class Captions(Dataset):
    def __init__(self, n, seed, size=16):
        g = torch.Generator().manual_seed(seed)
        self.images = 0.25 * torch.randn(n, 3, size, size, generator=g)
        self.text = torch.zeros(n, 4, dtype=torch.long)
        ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        color = torch.randint(0, 3, (n,), generator=g)
        place = torch.randint(0, 4, (n,), generator=g)
        shape = torch.randint(0, 3, (n,), generator=g)
        centers = [(8, 4), (8, 12), (4, 8), (12, 8)]
        for i in range(n):
            cy, cx = centers[place[i]]
            if shape[i] == 0:
                m = (ys - cy) ** 2 + (xs - cx) ** 2 <= 10
            elif shape[i] == 1:
                m = ((ys - cy).abs() <= 3) & ((xs - cx).abs() <= 3)
            else:
                m = ((ys - cy).abs() <= 1) & ((xs - cx).abs() <= 4)
            self.images[i, color[i]][m] += 1.5
            self.text[i, 1:] = torch.stack([1 + color[i], 4 + place[i], 8 + shape[i]])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.text[i]


class ViT(nn.Module):
    def __init__(self, dim=48, patch=4, tokens=16):
        super().__init__()
        self.to_patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, tokens, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, img):
        x = self.to_patch(img).flatten(2).transpose(1, 2) + self.pos
        return self.transformer(x)


class Extractor(nn.Module):
    """Runs a vit and returns the embeddings of its transformer."""

    def __init__(self, vit):
        super().__init__()
        self.vit = vit
        self.latents = None
        vit.transformer.register_forward_hook(self._hook)

    def _hook(self, _, inputs, output):
        self.latents = output.clone()

    def forward(self, img):
        self.vit(img)
        latents, self.latents = self.latents, None
        return latents


class CoCa(nn.Module):
    def __init__(self, dim=48, img_encoder=None):
        super().__init__()
        self.img_encoder = img_encoder
        self.img_norm = nn.LayerNorm(dim)
        self.token_emb = nn.Embedding(len(VOCAB), dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, 3, dim))
        self.self_attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 96), nn.GELU(), nn.Linear(96, dim))
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, len(VOCAB)))
        self.register_buffer("causal", torch.triu(torch.ones(3, 3, dtype=torch.bool), 1))

    def forward(self, text, images):
        img = self.img_norm(self.img_encoder(images))
        x = self.token_emb(text[:, :-1]) + self.pos
        h = self.norm1(x)
        x = x + self.self_attn(h, h, h, attn_mask=self.causal, need_weights=False)[0]
        x = x + self.cross_attn(self.norm2(x), img, img, need_weights=False)[0]
        x = x + self.ff(self.norm3(x))
        logits = self.to_logits(x)
        loss = F.cross_entropy(logits.reshape(-1, len(VOCAB)), text[:, 1:].reshape(-1))
        return loss, logits


def main():
    torch.manual_seed(0)
    loader = DataLoader(Captions(512, 1), batch_size=32, shuffle=True)
    held = DataLoader(Captions(128, 2), batch_size=64)
    coca = CoCa(img_encoder=Extractor(ViT()))
    optim = torch.optim.AdamW(coca.parameters(), lr=2e-3, weight_decay=0.01)
    for epoch in range(8):
        coca.train()
        total = 0.0
        for images, text in loader:
            loss, _ = coca(text, images)
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
        coca.eval()
        with torch.no_grad():
            acc = [(coca(t, im)[1].argmax(-1) == t[:, 1:]).float().mean().item() for im, t in held]
        print(f"epoch {epoch} caption loss {total / len(loader):.4f} held-out token accuracy {sum(acc) / len(acc):.3f}")


if __name__ == "__main__":
    main()
