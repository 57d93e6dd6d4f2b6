"""The way of accelerate's nlp_example.py: prepare everything, accumulate, gather for the metric."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_linear_schedule_with_warmup

config = {"lr": 5e-3, "num_epochs": 6, "seed": 42, "batch_size": 8}


def get_dataloaders(batch_size):
    features, target = load_wine(return_X_y=True)
    train_x, eval_x, train_y, eval_y = train_test_split(
        features, target, test_size=0.3, random_state=0, stratify=target
    )
    scaler = StandardScaler().fit(train_x)
    sets = [
        TensorDataset(torch.tensor(scaler.transform(x)).float(), torch.tensor(y))
        for x, y in ((train_x, train_y), (eval_x, eval_y))
    ]
    return DataLoader(sets[0], shuffle=True, batch_size=batch_size, drop_last=True), DataLoader(sets[1], batch_size=16)


def training_function(config):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(config["seed"])
    train_dataloader, eval_dataloader = get_dataloaders(config["batch_size"])
    model = nn.Sequential(nn.Linear(13, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(params=model.parameters(), lr=config["lr"])
    lr_scheduler = get_linear_schedule_with_warmup(
        optimizer=optimizer,
        num_warmup_steps=4,
        num_training_steps=(len(train_dataloader) * config["num_epochs"]) // 2,
    )
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, lr_scheduler
    )
    for epoch in range(config["num_epochs"]):
        model.train()
        for inputs, targets in train_dataloader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
            accelerator.print(f"loss {loss.item()!r}")
        model.eval()
        correct = total = 0
        for inputs, targets in eval_dataloader:
            with torch.no_grad():
                outputs = model(inputs)
            predictions, references = accelerator.gather_for_metrics((outputs.argmax(dim=-1), targets))
            correct += (predictions == references).sum().item()
            total += len(references)
        accelerator.print(f"epoch {epoch}: accuracy {correct / total!r}")
    accelerator.end_training()


if __name__ == "__main__":
    training_function(config)
