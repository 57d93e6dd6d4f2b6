"""A small training by a framework's own loop: `python frameworks.py transformers|lightning|lightning-gan|accelerate`.

Knows nothing of firstfault, downloads nothing. Prints losses, a checksum of the final weights and the next random number as
hexadecimal floats, then how many optimizer steps were made.
"""

import logging
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
warnings.simplefilter("ignore")


def tell(model, losses, steps):
    """What two runs are compared by."""
    total = sum(p.detach().double().sum() * (i + 1) for i, p in enumerate(model.parameters()))
    for number in (*losses, float(total), torch.rand(1).item()):
        print(float(number).hex())
    print(steps)


class Sentences(Dataset):
    """Token sequences that count upwards."""

    def __init__(self, count):
        self.ids = (torch.randint(60, (count, 1)) + torch.arange(16)) % 64

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def with_transformers():
    """Trainer: accumulation, clipping, warm-up, evaluation and checkpoints in between."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(
        vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, pad_token_id=0
    )
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=20,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=3e-3,
            warmup_steps=4,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=10,
            save_steps=10,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(model, arguments, train_dataset=Sentences(160), eval_dataset=Sentences(16))
        trainer.train()
    history = trainer.state.log_history
    losses = [row[key] for row in history for key in ("loss", "grad_norm", "eval_loss") if key in row]
    tell(model, losses, trainer.state.global_step)


def with_lightning():
    """Trainer of Lightning: automatic optimization, a scheduler, validation after each epoch."""
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
            self.losses = []

        def training_step(self, batch, _):
            x, y = batch
            loss = F.cross_entropy(self.body(x), y)
            self.losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def validation_step(self, batch, _):
            x, y = batch
            self.log("validation", F.cross_entropy(self.body(x), y))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]

    x = torch.randn(160, 12)
    y = x[:, :3].argmax(1)
    model = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=3,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            gradient_clip_val=1.0,
        )
        train = DataLoader(TensorDataset(x[:128], y[:128]), batch_size=16, shuffle=True)
        trainer.fit(model, train, DataLoader(TensorDataset(x[128:], y[128:]), batch_size=16))
    tell(model, model.losses, trainer.global_step)


def with_two_optimizers_in_lightning():
    """Manual optimization: each optimizer is wrapped in an object of its own, whose groups are those of the one inside."""
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Gan(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
            self.judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
            self.losses = []

        def move(self, optimizer, loss):
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            self.untoggle_optimizer(optimizer)
            self.losses.append(loss.item())

        def training_step(self, batch, _):
            (real,) = batch
            makers, judges = self.optimizers()
            z = torch.randn(len(real), 4)
            self.toggle_optimizer(judges)
            fake = self.maker(z).detach()
            self.move(judges, F.softplus(-self.judge(real)).mean() + F.softplus(self.judge(fake)).mean())
            self.toggle_optimizer(makers)
            self.move(makers, F.softplus(-self.judge(self.maker(z))).mean())

        def configure_optimizers(self):
            return (
                torch.optim.Adam(self.maker.parameters(), 1e-3, (0.5, 0.99)),
                torch.optim.Adam(self.judge.parameters(), 1e-3, (0.5, 0.99)),
            )

    model = Gan()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=3,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, DataLoader(TensorDataset(torch.randn(256, 2) * 0.3 + 1), batch_size=32, shuffle=True))
    tell(model, model.losses, len(model.losses) // 2)


def with_accelerate():
    """A loop of one's own around accelerate's wrappers: accumulation, clipping, scheduler."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    x = torch.randn(160, 12)
    y = x[:, :3].argmax(1)
    model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    wrapped, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses, steps = [], 0
    for _ in range(2):
        for inputs, targets in loader:
            with accelerator.accumulate(wrapped):
                loss = F.cross_entropy(wrapped(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(wrapped.parameters(), 1.0)
                    steps += 1
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    tell(model, losses, steps)


if __name__ == "__main__":
    {
        "transformers": with_transformers,
        "lightning": with_lightning,
        "lightning-gan": with_two_optimizers_in_lightning,
        "accelerate": with_accelerate,
    }[sys.argv[1]]()
