import math
import random
import string
import time

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(3)
random.seed(3)

# ---- data: surnames of four categories, each with its own letter habits ----
all_letters = string.ascii_lowercase
n_letters = len(all_letters)
all_categories = ["Norvian", "Kelic", "Tavish", "Ormese"]
n_categories = len(all_categories)
SYLLABLES = {
    "Norvian": ["sen", "rik", "ul", "ha", "bjo", "ste", "and", "er"],
    "Kelic": ["ko", "va", "ski", "mir", "zla", "tov", "ran", "ek"],
    "Tavish": ["mac", "gil", "dun", "lar", "fer", "gus", "bru", "ce"],
    "Ormese": ["li", "ra", "bel", "lo", "cas", "tel", "no", "via"],
}


def make_name(category):
    name = "".join(random.choice(SYLLABLES[category]) for _ in range(4))
    return name[:9].ljust(9, random.choice("aeiou"))


category_lines = {c: [make_name(c) for _ in range(300)] for c in all_categories}
held_out = {c: [make_name(c) for _ in range(60)] for c in all_categories}


def lines_to_tensor(lines):
    tensor = torch.zeros(len(lines[0]), len(lines), n_letters)
    for b, line in enumerate(lines):
        for li, letter in enumerate(line):
            tensor[li][b][all_letters.find(letter)] = 1
    return tensor


def random_training_batch(size=16):
    cats = [random.randrange(n_categories) for _ in range(size)]
    lines = [random.choice(category_lines[all_categories[c]]) for c in cats]
    return torch.tensor(cats), lines_to_tensor(lines)


# ---- model ----
class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return self.softmax(self.i2o(hidden)), hidden

    def init_hidden(self, n):
        return torch.zeros(n, self.hidden_size)


n_hidden = 64
rnn = RNN(n_letters, n_hidden, n_categories)

# one step by hand, to see the shapes
output, next_hidden = rnn(lines_to_tensor(["senrikula"])[0], rnn.init_hidden(1))
print("one step:", tuple(output.shape), tuple(next_hidden.shape))

criterion = nn.NLLLoss()
learning_rate = 0.003
optimizer = torch.optim.Adam(rnn.parameters(), lr=learning_rate)


def train(category_tensor, line_tensor):
    optimizer.zero_grad()
    hidden = rnn.init_hidden(line_tensor.size(1))
    for i in range(line_tensor.size(0)):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    optimizer.step()
    return output, loss.item()


def evaluate():
    hit = 0
    with torch.no_grad():
        for c, name in enumerate(all_categories):
            x = lines_to_tensor(held_out[name])
            hidden = rnn.init_hidden(x.size(1))
            for i in range(x.size(0)):
                output, hidden = rnn(x[i], hidden)
            hit += (output.argmax(1) == c).sum().item()
    return hit / (60 * n_categories)


def time_since(since):
    s = time.time() - since
    return "%dm %ds" % (math.floor(s / 60), s % 60)


n_iters = 300
print_every = 50
current_loss = 0

rnn = RNN(n_letters, n_hidden, n_categories)
start = time.time()

for it in range(1, n_iters + 1):
    category_tensor, line_tensor = random_training_batch()
    output, loss = train(category_tensor, line_tensor)
    current_loss += loss
    if it % print_every == 0:
        print("%d %d%% (%s) loss %.4f  held-out accuracy %.3f" % (
            it, it / n_iters * 100, time_since(start), current_loss / print_every, evaluate()))
        current_loss = 0
