"""A small healthy training as a public library makes it: `python libraries.py ppo|sac|arcface|adafactor|…`.

Knows nothing of firstfault, downloads nothing. Prints a checksum of the final weights and the next random number as
hexadecimal floats. Most of these were called anomalous once.
"""

import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
from frameworks import Sentences  # beside this file
from torch import nn
from torch.utils.data import Dataset, Subset

torch.set_num_threads(1)
torch.manual_seed(0)
warnings.simplefilter("ignore")


def tell(model):
    """What two runs are compared by."""
    total = sum(p.detach().double().sum() * (i + 1) for i, p in enumerate(model.parameters()))
    print(float(total).hex())
    print(torch.rand(1).item().hex())


def ppo():
    """Clips the large gradients of its value loss at every step."""
    from stable_baselines3 import PPO

    agent = PPO("MlpPolicy", "CartPole-v1", n_steps=128, batch_size=64, n_epochs=4, seed=0, device="cpu")
    agent.learn(1280)
    tell(agent.policy)


def sac():
    """Three optimizers, two critics and their slow copies, a temperature that is trained."""
    from stable_baselines3 import SAC

    small = {"net_arch": [32, 32]}
    agent = SAC("MlpPolicy", "Pendulum-v1", learning_starts=60, policy_kwargs=small, seed=0, device="cpu")
    agent.learn(200)
    tell(agent.policy)


def labelled(count, classes=8, features=16):
    """Points around a centre for each class."""
    centres = torch.randn(classes, features)
    y = torch.randint(classes, (count,))
    return centres[y] + 0.5 * torch.randn(count, features), y


def arcface():
    """Embeddings of as many numbers as the batch has samples; scale and margin are numpy's."""
    from pytorch_metric_learning.losses import ArcFaceLoss

    x, y = labelled(640)
    net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    loss = ArcFaceLoss(num_classes=8, embedding_size=16)
    optimizer = torch.optim.Adam([*net.parameters(), *loss.parameters()], 3e-3)
    for _ in range(2):
        for batch in torch.randperm(640).split(16):
            optimizer.zero_grad()
            loss(net(x[batch]), y[batch]).backward()
            optimizer.step()
    tell(net)


def adafactor():
    """Its second moment decays fast at first."""
    from pytorch_optimizer import AdaFactor

    x, y = labelled(640)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))
    optimizer = AdaFactor(net.parameters(), lr=1e-2)
    for _ in range(4):
        for batch in torch.randperm(640).split(32):
            optimizer.zero_grad()
            F.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    tell(net)


def gaussian_process():
    """The same hundred points at every step, a loss that may fall below zero."""
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ConstantMean
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from gpytorch.models import ExactGP

    class Process(ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module, self.covar_module = ConstantMean(), ScaleKernel(RBFKernel())

        def forward(self, x):
            return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 100)
    y = torch.sin(6 * x) + 0.05 * torch.randn(100)
    likelihood = GaussianLikelihood()
    model = Process(x, y, likelihood)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    marginal = ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(80):
        optimizer.zero_grad()
        (-marginal(model(x), y)).backward()
        optimizer.step()
    tell(model)


class Padded(Dataset):
    """Sequences of two classes in rows of 24 tokens, of different lengths."""

    def __init__(self, count):
        self.y = torch.randint(2, (count,))
        mask = torch.arange(24) < torch.randint(12, 24, (count, 1))
        ids = torch.randint(10, 100, (count, 24))
        ids[:, 2:8] = 5 + self.y[:, None]
        self.ids, self.mask = ids * mask, mask.long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": self.mask[i], "labels": self.y[i]}


def train(model, data, held_out, **options):
    """The Trainer of transformers, with an evaluation after each epoch."""
    from transformers import Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=16,
            num_train_epochs=3,
            learning_rate=1e-3,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            **options,
        )
        Trainer(model, arguments, train_dataset=data, eval_dataset=held_out).train()
    tell(model)


def masks():
    """Padding masks that are alike in training and in evaluation, batches that are fetched one ahead."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    train(BertForSequenceClassification(config), Padded(320), Padded(64), label_smoothing_factor=0.1)


def lora():
    """Adapters beside frozen weights; half of each begins as zeros."""
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, pad_token_id=0
    )
    model = get_peft_model(GPT2LMHeadModel(config), LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM"))
    data = Sentences(400)
    train(model, Subset(data, range(320)), Subset(data, range(320, 400)))


if __name__ == "__main__":
    {
        "ppo": ppo,
        "sac": sac,
        "arcface": arcface,
        "adafactor": adafactor,
        "gaussian-process": gaussian_process,
        "lora": lora,
        "masks": masks,
    }[sys.argv[1]]()
