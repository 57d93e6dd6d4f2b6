"""LoRA with peft: a small classifier is pre-trained on half of the digits, adapters alone learn the other half."""

import torch
from peft import LoraConfig, get_peft_model
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
digits = load_digits()
x, y = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
low, high = y < 5, y >= 5


class MLP(nn.Module):
    def __init__(self, num_units=96):
        super().__init__()
        self.seq = nn.Sequential(
            nn.Linear(64, num_units), nn.ReLU(), nn.Linear(num_units, num_units), nn.ReLU(), nn.Linear(num_units, 5)
        )

    def forward(self, X):
        return self.seq(X)


def train(model, optimizer, features, labels, epochs):
    loader = DataLoader(TensorDataset(features[:700], labels[:700]), batch_size=64, shuffle=True)
    for epoch in range(epochs):
        model.train()
        train_loss = 0
        for xb, yb in loader:
            loss = F.cross_entropy(model(xb), yb)
            train_loss += loss.detach().float()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            eval_loss = F.cross_entropy(model(features[700:]), labels[700:]).item()
        print(f"{epoch=} train {(train_loss / len(loader)).item()!r} eval {eval_loss!r}")


model = MLP()
train(model, torch.optim.Adam(model.parameters(), lr=2e-3), x[low], y[low], 6)
config = LoraConfig(r=8, target_modules=["seq.0", "seq.2"], modules_to_save=["seq.4"], lora_alpha=16)
peft_model = get_peft_model(model, config)
peft_model.print_trainable_parameters()
trainable = [p for p in peft_model.parameters() if p.requires_grad]
train(peft_model, torch.optim.Adam(trainable, lr=3e-3), x[high], y[high] - 5, 8)
merged = peft_model.merge_and_unload()
with torch.no_grad():
    print((merged(x[high][700:]).argmax(1) == y[high][700:] - 5).float().mean().item())
