import copy

import numpy as np
import torch

torch.set_num_threads(1)
torch.manual_seed(46525)
np.random.seed(46525)

##########################################################################################
# Data: short strips with one of six waveforms, noise added
##########################################################################################


def load_strips(n, seed):
    rng = np.random.RandomState(seed)
    ys = rng.randint(0, 6, n)
    t = np.arange(24)
    xs = np.zeros((n, 24, 4), dtype=np.float32)
    for k in range(n):
        phase = rng.rand() * 0.6
        wave = np.sin((ys[k] + 1) * 0.35 * t + phase)
        xs[k] = np.stack([wave, np.cos((ys[k] + 1) * 0.35 * t + phase), t / 24.0, np.ones(24)], axis=1)
    xs[:, :, :2] += 1.0 * rng.randn(n, 24, 2)
    return torch.from_numpy(xs), torch.from_numpy(ys)


##########################################################################################
# Model
##########################################################################################


class SelfAttentionModel(torch.nn.Module):
    def __init__(self, num_steps, num_channels, num_outputs, width=16):
        super().__init__()
        scale = num_channels ** 0.5
        self.K = torch.nn.Parameter((2.0 * torch.rand(num_channels, width) - 1.0) / scale)
        self.Q = torch.nn.Parameter((2.0 * torch.rand(num_channels, width) - 1.0) / scale)
        self.V = torch.nn.Parameter((2.0 * torch.rand(num_channels, width) - 1.0) / scale)
        self.softmax = torch.nn.Softmax(dim=1)
        self.out = torch.nn.Linear(num_steps * width, num_outputs)

    def forward(self, x):
        batch_size, num_steps, num_channels = x.shape
        y = []
        for i in range(batch_size):  # one sample at a time
            x_i = x[i, :, :]
            x_k_i = torch.matmul(x_i, self.K)
            x_q_i = torch.matmul(x_i, self.Q)
            x_v_i = torch.matmul(x_i, self.V)
            w_i = self.softmax(torch.matmul(x_q_i, x_k_i.T) / x_k_i.shape[1] ** 0.5)
            y.append(torch.matmul(w_i, x_v_i))
        y = torch.stack(y, axis=0)
        return self.out(y.reshape(batch_size, -1))


model = SelfAttentionModel(num_steps=24, num_channels=4, num_outputs=6)
probability = torch.nn.Softmax(dim=1)
loss = torch.nn.CrossEntropyLoss()


def accuracy(ps, ys):
    return (ps.argmax(1) == ys).float().mean()


optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
xs_train, ys_train = load_strips(7200, 1)
xs_val, ys_val = load_strips(300, 2)
dataset_train = torch.utils.data.TensorDataset(xs_train, ys_train)
sampler_train = torch.utils.data.RandomSampler(dataset_train)
loader_train = torch.utils.data.DataLoader(dataset_train, batch_size=24, sampler=sampler_train, drop_last=True)

##########################################################################################
# Training
##########################################################################################

e_better, state_better = 1.0e8, {}
for i in range(2):
    model.train()
    e_train = 0.0
    a_train = 0.0
    for xs_batch, ys_batch in loader_train:
        ls_batch = model(xs_batch)
        ps_batch = probability(ls_batch)
        e_batch = loss(ls_batch, ys_batch)
        a_batch = accuracy(ps_batch, ys_batch)
        optimizer.zero_grad()
        e_batch.backward()
        optimizer.step()
        e_train += e_batch / len(loader_train)  # average loss for this epoch
        a_train += a_batch / len(loader_train)  # average accuracy for this epoch

    model.eval()
    with torch.no_grad():
        ls_val = model(xs_val)
        e_val = loss(ls_val, ys_val)
        a_val = accuracy(probability(ls_val), ys_val)
        if e_val < e_better:
            e_better = e_val
            state_better = copy.deepcopy(model.state_dict())

    print(
        "i: " + str(i),
        "e_train: {:.5f}".format(float(e_train) / 0.693) + " bits",
        "a_train: {:.1f}".format(100.0 * float(a_train)) + " %",
        "e_val: {:.5f}".format(float(e_val) / 0.693) + " bits",
        "a_val: {:.1f}".format(100.0 * float(a_val)) + " %",
        sep="\t", flush=True,
    )

model.load_state_dict(state_better)
