"""What stands in the source of a model and of its training loop, and does nothing, is told; what only looks like it is not."""

import ast
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.lost_results import may_lose
from firstfault.recorder.script.slips import Slips, slips, slips_of

SCRIPT = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
    def forward(self, x):
        return x + torch.tanh(self.fc(x))

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        return self.attend(self.fc(x), x)
    def attend(self, scores, x):
        {attend}
        return scores.softmax(-1) * x
    def unused(self, x):
        x.masked_fill(x > 0, 0.0)
        return x

def main():
    torch.manual_seed(0)
    block = Block(8)
    model = nn.Sequential({blocks}, Attention(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    data, targets = torch.randn(64, 8), torch.randn(64, 1)
    for step in range(8):
        x, y = data[step * 8:step * 8 + 8], targets[step * 8:step * 8 + 8]
        {loop}
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()

values = torch.randn(3)
values.softmax(-1)
main()
"""


def _events(tmp_path: Path, text: str = SCRIPT, **parts: str) -> tuple[list[tuple[object, ...]], list[str]]:
    for name, value in parts.items():
        text = text.replace(f"{{{name}}}", value)
    (tmp_path / "script.py").write_text(text)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, tmp_path / "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(run) as trace:
        rows = trace.sql(
            "SELECT event, coalesce(m.module, '-'), e.detail ->> '$.text', e.detail ->> '$.place' FROM events e"
            " LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id"
            " WHERE event IN ('result-discarded', 'module-repeated', 'alias-kept', 'term-detached', 'recorder-fault')"
            " ORDER BY ALL"
        ).rows()
        return rows, [c.name for c in diagnose(trace).causes if c.severity != "warning"]


def test_results_that_nobody_takes_and_a_list_of_one_module_are_named_with_their_lines(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        attend="scores.masked_fill(x > 0, -1e9)",
        blocks="*[Block(8)] * 3",
        loop="torch.clamp(x, -1, 1)",
    )

    assert rows == [
        ("module-repeated", "", "[Block(8)] * 3", "script.py:29"),
        ("result-discarded", "-", "torch.clamp(x, -1, 1)", "script.py:34"),
        ("result-discarded", "3", "scores.masked_fill(x > 0, -1e9)", "script.py:20"),
    ]
    assert {"result-discarded", "module-repeated"} <= set(causes)


def test_what_is_taken_done_in_place_shared_by_a_name_or_never_called_is_none(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        attend="scores = scores.masked_fill(x > 0, -1e9); F.relu(scores + 0, inplace=True)",
        blocks="*[Block(8) for _ in range(2)], *[nn.Tanh()] * 3, *[block] * 2",
        loop="torch.clamp(x, -1, 1, out=x); x.clamp_(-1, 1)",
    )

    assert rows == []
    assert not {"result-discarded", "module-repeated"} & set(causes)


def test_a_method_that_is_only_named_a_comparison_and_a_sign_are_named_with_their_lines(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        attend="scores = scores",
        blocks="block",
        loop="""for p in block.parameters():
            p.requires_grad == False  # freeze
        model.train
        extra = 0.0
        extra =+ x.sum()
        for group in optimizer.param_groups:
            group["lr"] == 0.01""",
    )

    assert rows == [
        ("result-discarded", "-", "extra =+ x.sum()", "script.py:38"),
        ("result-discarded", "-", 'group["lr"] == 0.01', "script.py:40"),
        ("result-discarded", "-", "model.train", "script.py:36"),
        ("result-discarded", "-", "p.requires_grad == False", "script.py:35"),
    ]
    assert "result-discarded" in causes


def test_a_backward_that_is_only_named_is_told_at_the_first_step_of_the_optimizer(tmp_path: Path) -> None:
    text = SCRIPT.replace("F.mse_loss(model(x), y).backward()", "loss = F.mse_loss(model(x), y)\n        loss.backward")

    rows, _ = _events(tmp_path, text, attend="scores = scores", blocks="block", loop="pass")

    assert [row[2:] for row in rows] == [("loss.backward", "script.py:37")]


def test_what_is_called_assigned_added_tried_or_signed_for_the_first_time_is_none(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        attend="scores = scores",
        blocks="block",
        loop="""for p in block.parameters():
            p.requires_grad = p.requires_grad == True
        model.train()
        sign =+ 1.0
        extra = 0.0
        extra += +x.sum()
        extra=+1.0
        try:
            optimizer.step
        except AttributeError:
            pass""",
    )

    assert rows == []
    assert "result-discarded" not in causes


TRAINING = """
import copy
import torch
from torch import nn
from torch.nn import functional as F

def train(model, data, targets):
    for x, y in zip(data.split(8), targets.split(8)):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()

torch.manual_seed(0)
data, targets = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
best_loss, best = float("inf"), None
for epoch in range(3):
    {begin}
    loss = train(model, data, targets)
    if loss < best_loss:
        best_loss = loss
        {keep}
{use}
"""


def _written(keep: str, use: str, begin: str = "pass") -> str:
    return TRAINING.replace("{keep}", keep).replace("{use}", use).replace("{begin}", begin)


def _kept(keep: str, use: str, begin: str = "pass") -> list[tuple[str, str]]:
    text = _written(keep, use, begin)
    return [(slip.text, slip.use) for slip in slips_of(ast.parse(text), text).kept]


def test_best_weights_that_a_training_loop_keeps_by_reference_are_told(tmp_path: Path) -> None:
    rows, causes = _events(tmp_path, _written("best_model = model", "F.mse_loss(best_model(data), targets)"))

    assert [row[2:] for row in rows] == [("best_model = model", "script.py:25")]
    assert "restored-from-alias" in causes


def test_a_copy_that_a_training_loop_keeps_is_healthy(tmp_path: Path) -> None:
    rows, causes = _events(tmp_path, _written("best_model = copy.deepcopy(model)", "best_model(data)"))

    assert rows == []
    assert "restored-from-alias" not in causes


@pytest.mark.parametrize(
    ("keep", "use", "shown"),
    [
        ("best = model.state_dict()", "model.load_state_dict(best)", "model.load_state_dict(best)"),
        ("best = copy.copy(model.state_dict())", "torch.save(best, 'best.pt')", "torch.save(best, 'best.pt')"),
        (
            "best = {'model': model.state_dict()}",
            "torch.save(obj=best, f='best.pt')",
            "torch.save(obj=best, f='best.pt')",
        ),
        ("weights = model.state_dict()", "model.load_state_dict(weights)", "model.load_state_dict(weights)"),
        ("best_loss, best_model = loss, model", "model = best_model", "model = best_model"),
    ],
)
def test_references_are_told_with_their_first_use(keep: str, use: str, shown: str) -> None:
    assert _kept(keep, use) == [(keep, shown)]


@pytest.mark.parametrize(
    ("keep", "use", "begin"),
    [
        ("best = {k: v.clone() for k, v in model.state_dict().items()}", "model.load_state_dict(best)", "pass"),
        ("best = model.state_dict(); torch.save(best, 'best.pt')", "best = torch.load('best.pt')", "pass"),
        ("best = model.state_dict(); best = {k: v + 0 for k, v in best.items()}", "torch.save(best, 'b')", "pass"),
        ("best_model = model", "best_model.eval()", "model = nn.Linear(8, 1)"),
        ("best_model = model; break", "best_model.eval()", "pass"),
        ("best_model = model", "print(best_model)", "pass"),
        ("best = optimizer.state_dict()", "optimizer.load_state_dict(best)", "pass"),
        ("best_net_loss = loss", "str(best_net_loss)", "pass"),
    ],
)
def test_copies_files_models_of_each_pass_and_loops_that_end_are_no_references(keep: str, use: str, begin: str) -> None:
    assert _kept(keep, use, begin) == []


def test_a_file_that_is_no_python_or_is_gone_holds_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n    x.clamp(0)\n")

    assert slips(str(broken)) == Slips()
    assert slips(str(tmp_path / "none.py")) == Slips()


SUM = """
def step(model, x, y):
    loss_rec = F.mse_loss(model(x), y)
    {term}
    loss = loss_rec + 0.1 * loss_aux
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss_rec.item() + loss_aux
"""


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("loss_aux = F.l1_loss(model(x), y).item()", 1),
        ("loss_aux = 0.5 * F.l1_loss(model(x), y).detach().cpu()", 1),
        ("loss_aux = torch.mean(torch.tensor([float(v) for v in model(x)]))", 1),
        ("loss_aux = F.l1_loss(model(x), y)", 0),
        ("loss_aux = torch.tensor(0.5)", 0),
        ("loss_aux = float(LAMBDA.aux)", 0),  # a setting
        ("loss_aux = F.l1_loss(model(x), y).detach() if y is None else F.l1_loss(model(x), y)", 0),
    ],
)
def test_a_term_that_is_made_a_number_before_it_is_added_is_found(term, found):
    text = SUM.replace("{term}", term)
    terms = slips_of(ast.parse(text), text).detached
    assert [(t.function, t.term, t.line, t.text) for t in terms] == [
        ("step", "loss_aux", 5, "loss_rec + 0.1 * loss_aux")
    ] * found


def test_a_detached_term_of_what_trains_is_named(tmp_path):
    loop = """loss_rec = F.mse_loss(model(x), y)
        loss_aux = model(x).square().mean().item()
        loss = loss_rec + 0.1 * loss_aux
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()"""
    rows, causes = _events(tmp_path, attend="pass", blocks="Block(8)", loop=loop)
    assert [row[0] for row in rows] == ["term-detached"]
    assert causes[0] == "loss-term-without-effect"


REBOUND = """
import torch
from torch import nn

class Average:
    def __init__(self, model, mean, decay=0.9):
        self.decay = decay
        self.own, self.mean = model, mean
        self.params = list(model.state_dict().values())
        self.averages = list(mean.state_dict().values())
        {begin}
    def update(self):
        {update}

torch.manual_seed(0)
model, mean = nn.Linear(8, 1), nn.Linear(8, 1)
average = Average(model, mean)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(8):
    x = torch.randn(8, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
    average.update()
"""


def test_a_loop_over_parameters_that_only_binds_its_variable_is_told(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        REBOUND,
        begin="""for p, q in zip(self.params, self.averages):
            q = p""",
        update="""for p, q in zip(self.own.parameters(), self.mean.parameters()):
            q = q * self.decay + p * (1 - self.decay)""",
    )

    assert [row[0::3] for row in rows] == [("result-discarded", "script.py:12"), ("result-discarded", "script.py:15")]
    assert causes[0] == "result-discarded"


def test_a_loop_over_parameters_that_copies_or_adds_in_place_is_none(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        REBOUND,
        begin="""for p, q in zip(self.params, self.averages):
            q.copy_(p)""",
        update="""with torch.no_grad():
            for p, q in zip(self.own.parameters(), self.mean.parameters()):
                q *= self.decay
                q += p * (1 - self.decay)""",
    )

    assert rows == []
    assert "result-discarded" not in causes


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        ("for p in model.parameters():\n        p = p * 0.9", "p.data.copy_(p * 0.9)"),
        ("for p in model.parameters():\n        p = p.data.clamp(-1, 1)", "p.data.copy_(p.data.clamp(-1, 1))"),
        ("for n, p in model.named_parameters():\n        p = torch.clamp(p, -1, 1)", "p.data.copy_(torch.clamp(p, -1, 1))"),
        ("for (n, p), q in zip(model.named_parameters(), old):\n        p = q.data", "p.data.copy_(q.data)"),
        ("for p in model.parameters():\n        p = p * 0.9\n    for p in old:\n        print(p)", "p.data.copy_(p * 0.9)"),
        ("for p in model.parameters():\n        p.data = p * 0.9", None),
        ("for p in model.parameters():\n        p = p * 0.9\n        total += p.sum()", None),
        ("for p in model.parameters():\n        p = p * 0.9\n    print(p)", None),
        ("for p in model.parameters():\n        p = p.cuda()", None),
        ("for p in model.parameters():\n        p = p.mul_(0.9)", None),
        ("for p in model.parameters():\n        p = reduced(p * 2)", None),
        ("for p in model.parameters():\n        while p.sum() > 1:\n            p = p * 0.9", None),
        ("for n, p in model.state_dict():\n        p = p * 0.9", None),
        ("for n, p in model.named_parameters():\n        n = n * 2", None),
        ("for p in model.parameters():\n        hooks.append(lambda: p)\n        p = p * 0.9", None),
    ],
)  # fmt: skip
def test_what_a_loop_over_parameters_binds_and_nothing_reads_is_found(loop: str, found: str | None) -> None:
    text = f"def f(model, total, hooks):\n    old = list(model.parameters())\n    {loop}\n"
    assert [s.meant for s in slips_of(ast.parse(text), text).discarded] == ([found] if found else [])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ema.state_dict(model.state_dict())", "ema.load_state_dict(model.state_dict())"),
        ("ema.state_dict(destination=model.state_dict())", "ema.load_state_dict(model.state_dict())"),
        ("ema.net.state_dict(best)", "ema.net.load_state_dict(best)"),
        ("ema.state_dict(destination=collected, prefix='ema.')", None),
        ("ema.state_dict(destination=collected)", None),
        ("best = ema.state_dict(best)", None),
        ("ema.state_dict()", None),
        ("ema.load_state_dict(best)", None),
    ],
)
def test_weights_that_are_given_out_and_not_loaded_are_found(line: str, found: str | None) -> None:
    text = f"""def restore(ema, model):
    best = copy.deepcopy(model.state_dict())
    collected = {{}}
    {line}
"""
    assert may_lose(text) or found is None
    told = [slip for slip in slips_of(ast.parse(text), text).discarded if slip.reason == "loads_nothing"]
    assert [slip.meant for slip in told] == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("inputs = torch.cat([x, c], -1)\n        return self.rnn(x)[0]", "c"),
        ("inputs = torch.cat((x, c.unsqueeze(1)), dim=2)\n        h, _ = self.rnn(x)\n        return h", "c"),
        ("inputs = torch.cat([x, c], -1)\n        return self.rnn(inputs)[0]", None),
        ("inputs = torch.cat([x, c], -1)\n        return self.rnn(x)[0] + c", None),  # a leftover that harms nothing
        ("inputs = torch.cat([x, x], -1)\n        return self.rnn(x)[0]", None),
        ("inputs = torch.cat([x, c], -1)\n        return self.rnn(locals()['inputs'])[0]", None),
        (
            "if self.wide:\n            d = c.unsqueeze(1)\n            inputs = torch.cat([x, d], -1)\n        return x",
            "c",
        ),
        ("inputs = torch.cat([x, c], -1)\n        x = inputs\n        return self.rnn(x)[0]", None),
        ("inputs = torch.cat([x, c], -1)\n        self.last = inputs\n        return self.rnn(x)[0]", None),
        (
            "inputs = torch.cat([x, c], -1)\n        if c.any():\n            return x\n        return self.rnn(x)[0]",
            None,
        ),
        ("shape = x.shape\n        return self.rnn(x)[0]", None),  # an argument that nothing takes at all
    ],
)
def test_an_argument_that_is_joined_into_what_nothing_reads_is_told(body, lost):
    text = f"class D(nn.Module):\n    def forward(self, x, c):\n        {body}\n"
    found = slips_of(ast.parse(text), text).discarded

    assert [(slip.reason, slip.called, slip.target) for slip in found] == ([("unread", lost, "inputs")] if lost else [])


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("out = lrelu(self.n1(self.c1(x)))\n        out = self.n2(self.c2(x))\n        return out + x", "out"),
        ("out = self.c1(x)\n        y = self.c2(x)\n        out = F.relu(y)\n        return out", "out"),
        ("out = self.c1(x)\n        out = self.c2(out)\n        return out", None),
        ("out = self.c1(x)\n        self.seen.append(out)\n        out = self.c2(x)\n        return out", None),
        ("out = self.c1(x)\n        if self.deep:\n            out = self.c2(x)\n        return out", None),
        ("out = self.c1(x)\n        for c in self.rest:\n            out = c(x)\n        return out", None),
        ("out = x * 2\n        out = self.c2(x)\n        return out", None),  # nothing of the model is left out
        ("out = self.c1(x)\n        out = self.c2(locals()['out'])\n        return out", None),
        ("out = self.c1(x)\n        out[0] = 0\n        out = self.c2(x)\n        return out", None),
    ],
)
def test_what_a_module_gives_and_nothing_reads_before_it_is_bound_anew_is_told(body, lost):
    text = f"class D(nn.Module):\n    def forward(self, x):\n        {body}\n"
    found = slips_of(ast.parse(text), text).discarded

    assert [(slip.reason, slip.target) for slip in found] == ([("overwritten", lost)] if lost else [])


LOOPS = """for x in train:
        outputs = net(x)
        loss(outputs)
    for x in valid:
        val_outputs = net(x)
        """


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("output, hdden = self.gru(x, hidden)\n    return self.out(output), hidden", ("misspelt", "hdden", "hidden")),
        ("predicton = net(x)\n    prediction = x\n    return prediction", ("misspelt", "predicton", "prediction")),
        ("hdiden = net(hidden)\n    return hidden", ("misspelt", "hdiden", "hidden")),
        ("logits = net(x)\n    logit = x\n    return logit", None),  # one of them may be the plural
        ("scale1 = net(x)\n    scale2 = x\n    return scale2", None),
        ("output, hdden = self.gru(x, hidden)\n    hidden = hdden\n    return hidden", None),
        ("hdden = 3\n    return hidden", None),
        ("inner_state = net(x)\n    iner_state = net(inner_state)\n    return iner_state", None),
        (
            f"{LOOPS}score(outputs)",
            ("twin_read", "val_outputs", "outputs"),
        ),
        (
            f"{LOOPS}val_outputs = outputs.argmax(1)\n        score(val_outputs)",
            ("twin_read", "val_outputs", "outputs"),
        ),
        (
            f"{LOOPS}score(val_outputs, outputs)",
            None,
        ),
        (
            "for x in train:\n        outputs = net(x)\n        aux_outputs = net(x)\n        loss(outputs)",
            None,
        ),
        ("self.embedding.from_pretrained(x)\n    return x", ("made_anew", "self.embedding", "from_pretrained")),
        ("Model.from_pretrained(x)\n    return x", None),
        ("self.embedding = nn.Embedding.from_pretrained(x)\n    return x", None),
    ],
)
def test_a_result_that_nothing_reads_beside_a_name_that_is_nearly_the_same_is_told(body, lost):
    text = f"def train(self, net, x, hidden, train, valid):\n    {body}\n"
    found = slips_of(ast.parse(text), text).discarded

    assert [(slip.reason, slip.target, slip.called) for slip in found] == ([lost] if lost else [])


PARTS = """
class Net(nn.Module):
    def forward(self, x):
        h = self.features(x)
        graph = self.graph(x)
        adj = normalise(graph + h.detach()){cut}
        return self.head(h, adj)
"""


@pytest.mark.parametrize(("cut", "found"), [(".detach()", ["features", "graph"]), (".cpu()", ["features"])])
def test_what_a_forward_detaches_is_told_with_the_modules_that_made_it(cut, found):
    text = PARTS.replace("{cut}", cut)
    told = slips_of(ast.parse(text), text).cut
    assert sorted({t.attribute for t in told}) == found
    assert {(t.owner, t.line) for t in told} == {("Net", 6)}


def test_a_part_of_the_model_that_its_forward_detaches_is_named_with_its_line(tmp_path):
    text = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate, self.shift, self.head = (nn.Linear(8, n) for n in (8, 8, 8, 1))
    def forward(self, x):
        h = self.body(x)
        g = torch.sigmoid(self.gate(x) + self.shift(x)).detach()
        return self.head(h * g)

torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(20):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
"""
    script = tmp_path / "script.py"
    script.write_text(text)
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run"), str(script)])
    with Trace(tmp_path / "run") as trace:
        first = diagnose(trace).causes[0]
    assert (first.name, first.step) == ("broken-graph", 0)
    assert {row["module"] for row in first.evidence} == {"gate", "shift"}
    assert f"torch.sigmoid(self.gate(x) + self.shift(x)).detach() in {script}:11" in first.message
