"""A LightningModule with a LightningDataModule, early stopping, checkpoints and a test of the best one."""

import logging
import tempfile
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics.classification import MulticlassAccuracy

warnings.filterwarnings("ignore", message=".*does not have many workers.*")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class DigitsDataModule(L.LightningDataModule):
    def __init__(self, batch_size=64):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        digits = load_digits()
        full = TensorDataset(torch.tensor(digits.images).float().unsqueeze(1) / 16, torch.tensor(digits.target))
        self.train_set, self.val_set, self.test_set = random_split(
            full, [1200, 297, 300], generator=torch.Generator().manual_seed(42)
        )

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=self.hparams.batch_size)

    def test_dataloader(self):
        return DataLoader(self.test_set, batch_size=self.hparams.batch_size)


class LitDigits(L.LightningModule):
    def __init__(self, learning_rate=3e-3, hidden=32):
        super().__init__()
        self.save_hyperparameters()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(128, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, 10))
        self.val_accuracy = MulticlassAccuracy(10)

    def forward(self, x):
        return self.head(self.features(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.val_accuracy.update(logits, y)
        self.log("val_loss", F.cross_entropy(logits, y), prog_bar=True)
        self.log("val_acc", self.val_accuracy, prog_bar=True)

    def on_validation_epoch_end(self):
        print({k: v.item() for k, v in sorted(self.trainer.callback_metrics.items())})

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.log("test_loss", F.cross_entropy(self(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.learning_rate)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.learning_rate, total_steps=self.trainer.estimated_stepping_batches
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


if __name__ == "__main__":
    L.seed_everything(42, verbose=False)
    with tempfile.TemporaryDirectory() as root:
        trainer = L.Trainer(
            max_epochs=5,
            accelerator="cpu",
            logger=CSVLogger(root),
            callbacks=[
                EarlyStopping("val_loss", patience=3),
                ModelCheckpoint(monitor="val_loss", save_top_k=1),
                LearningRateMonitor("step"),
            ],
            gradient_clip_val=1.0,
            log_every_n_steps=5,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=2,
        )
        data = DigitsDataModule()
        trainer.fit(LitDigits(), datamodule=data)
        result = trainer.test(ckpt_path="best", datamodule=data, verbose=False)
    print(result[0]["test_loss"])
