"""Secrets are replaced before they are written; what only looks like one stays readable."""

import json
from html import unescape

import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.application import build_app
from firstfault.recorder.supervisor.output_tail import OutputTail
from firstfault.reports.page.data import reduce_page
from firstfault.reports.page.render import render_page
from firstfault.schemas.files.secrets import HIDDEN, Redactor
from typer.testing import CliRunner

# put together here, so that no scanner takes this file for a leak
LETTERS = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
HEX = "3f9a1c7e5b2d8064" * 2
SECRETS = {
    "a token of Hugging Face": "hf_" + LETTERS,
    "a token of GitHub": "ghp_" + LETTERS,
    "a fine-grained token of GitHub": "github_pat_" + LETTERS + "_" + LETTERS,
    "a token of GitLab": "glpat-" + LETTERS[:20],
    "a key of AWS": "AKIA" + "Q3RT5VWX7YZ2ABCD",
    "a key of Google": "AIza" + LETTERS[:35],
    "a token of Slack": "xoxb-" + "123456789012-" + LETTERS[:24],
    "a key of a model service": "sk-proj-" + LETTERS + "-" + LETTERS,
    "a live key of Stripe": "sk_live_" + LETTERS[:24],
    "a token of npm": "npm_" + LETTERS,
    "a signed web token": "eyJ" + LETTERS[:20] + ".eyJ" + LETTERS[:24] + "." + LETTERS,
    "a deploy token of GitLab": "gldt-" + LETTERS[:20],
    "a key of Tencent": "AKID" + LETTERS[:32],
    "a key of Alibaba": "LTAI" + LETTERS[:20],
    "a client's secret of Google": "GOCSPX-" + LETTERS[:28],
    "an access token of Google": "ya29." + LETTERS,
    "an app's token of Slack": "xapp-" + "1-A0123456789-1234567890123-" + HEX,
    "a test key of Stripe": "sk_test_" + LETTERS[:24],
    "a key of OpenRouter": "sk-or-v1-" + HEX + HEX,
    "a key of DeepSeek": "sk-" + HEX,
    "a key of NVIDIA": "nvapi-" + LETTERS + "-" + LETTERS[:27],
    "a token of Replicate": "r8_" + LETTERS + "x",
    "a key of Groq": "gsk_" + LETTERS + LETTERS[:16],
    "a key of Perplexity": "pplx-" + LETTERS + LETTERS[:12],
    "a key of LangSmith": "lsv2_pt_" + HEX + "_" + HEX[:10],
    "a token of Neptune": "eyJhcGlfYWRkcmVzcyI6" + LETTERS + LETTERS,
    "a key of RubyGems": "rubygems_" + HEX + HEX[:16],
    "a token of DigitalOcean": "dop_v1_" + HEX + HEX,
    "a token of Vault": "hvs." + LETTERS + LETTERS,
    "a token of Pulumi": "pul-" + HEX + HEX[:8],
    "a token of Doppler": "dp.pt." + LETTERS + LETTERS[:7],
    "a password of PlanetScale": "pscale_pw_" + LETTERS,
    "a token of Grafana": "glsa_" + LETTERS[:32] + "_" + HEX[:8],
    "a user's token of Sentry": "sntryu_" + HEX + HEX,
    "an organisation's token of Sentry": "sntrys_eyJ" + LETTERS + LETTERS,
    "a token of Dynatrace": "dt0c01." + LETTERS[:24].upper() + "." + (LETTERS + LETTERS)[:64].upper(),
    "a key of Linear": "lin_api_" + LETTERS + "abcd",
    "a token of Notion": "ntn_" + "12345678901" + LETTERS[:35],
    "a token of Atlassian": "ATATT3" + LETTERS + LETTERS,
    "a key of Postman": "PMAK-" + HEX[:24] + "-" + HEX + HEX[:2],
    "a token of Shopify": "shpat_" + HEX,
    "a key of Twilio": "SK" + HEX,
    "a key of age": "AGE-SECRET-KEY-1" + (LETTERS + LETTERS)[:58].upper(),
    "a bot of Telegram": "1234567890" + ":AA" + LETTERS[:33],
    "a client's secret of Entra": "aB3" + "8Q~" + LETTERS[:34],
}

AROUND = [
    ("Authorization: Bearer {}", "w7Kq2Zp9Lx4Vn8Tb6Rc1"),
    ("authorization: Basic {}", "dXNlcjpwYXNzd29yZDEyMw=="),
    ("fetching https://user:{}@data.example.org/set.tar", "hunter2"),
    ("postgresql://me:{}@db/x", "p4ss"),
    ("password={} accepted", "corr3ct-horse"),
    ('{{"api_key": "{}"}}', "0123456789abcdef0123456789abcdef"),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYq9"),
    ("WANDB_API_KEY={}", "4f9d8c7b6a5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c"),
    ("client_secret: '{}'", "Zx81spectrum"),
    ("hub_token={}", "9b2f6c1d8e4a"),
    ("AccountName=data;AccountKey={};EndpointSuffix=core.windows.net", LETTERS + "+" + LETTERS + "/Q=="),
    ("https://" + "hooks.slack.com/services/{} said no", "T0ABCDEFGH1/B0ABCDEFGH1/" + LETTERS[:24]),
    ("POST https://" + "discord.com/api/webhooks/123456789012345678/{}", LETTERS + "_" + LETTERS),
    ("https://b.s3.amazonaws.com/part.tar?X-Amz-Expires=3600&X-Amz-Signature={}&x=1", HEX + HEX),
    ("https://storage.googleapis.com/b/part.tar?X-Goog-Signature={}", HEX + HEX),
    ("https://acc.blob.core.windows.net/d/part.tar?sv=2024-11-04&sp=rl&sig={}", LETTERS + "%2Bx%3D"),
    ("SENTRY https://{}@o12345.ingest.sentry.io/4501", HEX),
    ("Cookie: {}", "sessionid=" + LETTERS),
    ("Set-Cookie: {}", "sid=" + LETTERS[:12] + "; Path=/; HttpOnly"),
]

HARMLESS = [
    "pad_token=<pad>",
    "eos_token: '</s>'",
    "num_tokens=1024",
    "tokens: 32768",
    "max_new_tokens=128",
    "token_type_ids=tensor([[0, 0]])",
    "tokens/s: 18234.5",
    "tokenizer=gpt2-medium-355M",
    "special_tokens_map={'unk_token': '[UNK]'}",
    "bos_token_id=50256",
    "image_token_index=32000",
    "key=value",
    "key: encoder.layer.11.attention.self.key.weight",
    "Missing key(s) in state_dict: model.layers.0.q_proj.weight1",
    "keys: ['input_ids', 'attention_mask']",
    "sort_key=length2",
    "key_padding_mask: torch.bool",
    "KeyError: 'loss_v2'",
    "monkey=3d-model-12345678",
    "keyboard=us104",
    "password: required",
    "the secret: patience",
    "secret_santa=false",
    "passwords are read from the keyring",
    "Enter password: ",
    "commit 739f3a8d1c2b3a4f5e6d7c8b9a0f1e2d3c4b5a69",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "uuid 550e8400-e29b-41d4-a716-446655440000",
    "http://localhost:6006/?run=3",
    "tcp://10.0.0.1:29500",
    "https://example.org/a@2x.png",
    "git@github.com:owner/name.git",
    "s3://bucket/key/part-000017.parquet",
    "sk-learn-compatible-estimator-wrapper",
    "task-sk-7b",
    "bearer of bad news and responsibilities",
    "Basic training-configuration",
    "hf_hub_download",
    "ghp_short",
    "AKIA is a prefix",
    "step 412 loss 0.6931471805599453 lr 3e-4",
    "checkpoint-20261125T091202Z-train-739f",
    "model.safetensors: 100%|#####| 1.07G/1.07G",
    "token=5",
    "self.token_embedding.weight 50257x768",
    "auth_token_file=/run/secrets/hf1",
    "api_key_name=prod-key-01",
    "attention.k_proj.key_states2=fp16",
    "nvapi-version",
    "r8_block3_conv2_weight",
    "gsk_1",
    "hvs.model",
    "12345678:AAB",
    "Q~3 of the second quarter",
    "?sig=short",
    "https://host.example.org/data?version=20261126&signature=none",
    "significance=0.05",
    "SK2026",
    "SKIP_VALIDATION=1",
    "lin_api_v2",
    "LTAI is an abbreviation",
    "gldt-1",
    "sk_test_split",
    "pplx-7b",
    "cookie: jar",
    "Cookie cutter=3",
    "hooks.slack.com is reachable",
    "https://discord.com/api/webhooks/ is called",
    "https://me@host.example.org/x",
    "ssh://git@github.com/owner/name",
    "wandb: run-20261126_082200-a1b2c3d4",
    "0123456789abcdef0123456789abcdef01234567",
    "d41d8cd98f00b204e9800998ecf8427e",
    "eyJ is how JSON begins in base64",
    "-----BEGIN PGP PUBLIC KEY BLOCK-----",
    "-----BEGIN CERTIFICATE-----",
    "dataset: c4/en/train-00017-of-01024.json.gz",
    "doc_v1_draft",
]


@pytest.mark.parametrize("kind", SECRETS)
def test_a_token_of_a_known_shape_is_hidden_wherever_it_stands(kind):
    secret = SECRETS[kind]
    texts = [secret, f"login with {secret}.", f"('{secret}',)", f"https://x.org/?t={secret}&n=1", f"a={secret}\n"]
    texts += [repr(f"a\n{secret}\n"), json.dumps(f"\x1f{secret}"), f"%2F{secret}%2F", f"\x1b[1;32m{secret}\x1b[0m"]
    for text in texts:
        hidden = Redactor().text(text)
        assert secret not in hidden
        assert HIDDEN in hidden


@pytest.mark.parametrize(("around", "secret"), AROUND)
def test_what_stands_beside_a_word_for_a_secret_is_hidden_and_the_word_stays(around, secret):
    hidden = Redactor().text(around.format(secret))
    assert secret not in hidden
    before, after = around.format("\0").split("\0")
    assert hidden.startswith(before.rstrip("'\""))
    assert hidden.endswith(after.lstrip("'\""))


def test_a_private_key_is_hidden_whole():
    begin, end = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
    text = f"key:\n{begin}\nMIIEpAIBAAKCAQEA\nq2x8\n{end}\nafter"
    assert Redactor().text(text) == f"key:\n{HIDDEN}\nafter"


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
def test_a_private_key_that_is_printed_line_by_line_is_hidden_whole(tmp_path, kind):
    begin, end = f"-----BEGIN {kind}-----", f"-----END {kind}-----"
    tail = OutputTail(tmp_path / "output.log", hide=Redactor().output)
    for line in ("before", begin, "", *[LETTERS + LETTERS] * 50, end, "after"):
        tail.write(line.encode() + b"\n")
    tail.close()
    assert (tmp_path / "output.log").read_text() == f"before\n{HIDDEN}\nafter\n"


def test_words_about_a_private_key_do_not_hold_the_log_back(tmp_path):
    tail = OutputTail(tmp_path / "output.log", hide=Redactor().output)
    tail.write(b"-----BEGIN CERTIFICATE-----\nMIIB\n")
    assert (tmp_path / "output.log").read_bytes() == b"-----BEGIN CERTIFICATE-----\nMIIB\n"
    tail.write(b"-----BEGIN PRIVATE" + b" KEY-----\n" + b"a line, that is no key\n" * 1000)
    assert (tmp_path / "output.log").read_bytes().endswith(b"a line, that is no key\n")
    tail.close()


def test_forty_harmless_look_alikes_stay_readable():
    assert len(HARMLESS) >= 40
    redactor = Redactor(["train.py"], {"TOKENIZERS_PARALLELISM": "false", "SSH_AUTH_SOCK": "/tmp/ssh-1/agent.2"})
    assert [text for text in HARMLESS if redactor.text(text) != text] == []


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (["--hf-token", "mytoken1234", "-n", "3"], ["--hf-token", HIDDEN, "-n", "3"]),
        (["--password=hunter", "x"], [f"--password={HIDDEN}", "x"]),
        (["wandb.api_key=abcdefgh"], [f"wandb.api_key={HIDDEN}"]),
        (["--api-key", "plainwords"], ["--api-key", HIDDEN]),
        (["--pad-token", "<pad>", "--max-tokens", "2048"], ["--pad-token", "<pad>", "--max-tokens", "2048"]),
        (["--sort-key", "length", "--token-file", "/run/x"], ["--sort-key", "length", "--token-file", "/run/x"]),
        (["--secret", "--next"], ["--secret", "--next"]),
    ],
)
def test_arguments_are_hidden_by_the_name_of_their_option(given, written):
    assert Redactor(given).arguments(given) == written


def test_values_of_variables_and_arguments_are_hidden_in_every_later_text():
    redactor = Redactor(
        ["train.py", "--password", "open sesame"], {"DB_PASSWORD": "swordfish", "EDITOR": "vi", "KEY": "up"}
    )
    assert redactor.text("swordfish, open sesame, vi, up") == f"{HIDDEN}, {HIDDEN}, vi, up"


def test_nested_values_are_hidden_by_their_keys():
    config = {"lr": 0.1, "hub": {"hf_token": "abc123", "urls": ["https://a:b1@c/d"]}, "pad_token": "<pad>"}
    assert Redactor().value(config) == {
        "lr": 0.1,
        "hub": {"hf_token": HIDDEN, "urls": [f"https://a:{HIDDEN}@c/d"]},
        "pad_token": "<pad>",
    }
    assert Redactor(keep=True).value(config) == config


def test_a_secret_that_comes_in_two_pieces_is_hidden_and_bytes_that_are_no_text_stay(tmp_path):
    secret = SECRETS["a token of Hugging Face"].encode()
    tail = OutputTail(tmp_path / "output.log", hide=Redactor().output)
    for piece in (b"\xff\xfe begin ", secret[:9], secret[9:], b" end\n", b"a bar\r", secret[:20]):
        tail.write(piece)
    assert (tmp_path / "output.log").read_bytes() == b"\xff\xfe begin " + HIDDEN.encode() + b" end\na bar\r"
    tail.write(secret[20:])
    tail.close()
    assert (tmp_path / "output.log").read_bytes().endswith(b"a bar\r" + HIDDEN.encode())


@pytest.mark.parametrize("kind", SECRETS)
def test_pieces_of_two_streams_that_come_in_turns_make_no_line(tmp_path, kind):
    """As with PYTHONUNBUFFERED: a line and its end are two writes, and the other stream's line comes between them."""
    secret = SECRETS[kind]
    tail = OutputTail(tmp_path / "output.log", hide=Redactor().output)
    for stream, piece in [
        (1, "a"),
        (2, f"{secret}\n"),
        (1, "\n"),
        (1, secret),
        (2, "script.py:3: a warning\n"),
        (1, "\n"),
    ]:
        tail.write(piece.encode(), stream)
    tail.write(secret[:9].encode(), 1)
    tail.write(secret.encode(), 2)
    tail.write(secret[9:].encode(), 1)
    tail.close()
    written = (tmp_path / "output.log").read_text("utf-8")
    assert written == f"{HIDDEN}\na\n" + f"script.py:3: a warning\n{HIDDEN}\n" + HIDDEN * 2


PLANTED = """
import logging, os, subprocess, sys, warnings, torch
token = sys.argv[2]
print("logging in with", token, flush=True)
print("and the variable", os.environ["WANDB_API_KEY"], flush=True)
print("DB_PASSWORD", os.environ["DB_PASSWORD"], file=sys.stderr, flush=True)
for line in sys.argv[3].splitlines():
    print(line, flush=True)
    warnings.warn(line)
warnings.warn("the address https://me:{password}@host/x is old")
logging.warning("retry with api_key={held}")
subprocess.run([sys.executable, "-c", "pass", "--hub-token", token], check=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
torch.save(model.state_dict(), "model-" + token + ".pt")

class Login(torch.nn.Module):
    def forward(self, x):
        secret, headers = "{held}", {{"Authorization": "Bearer {bearer}"}}
        settings = {{"hf_token": token, "address": "https://me:{password}@host/x"}}
        try:
            settings[token]
            settings["x" + token]
        except KeyError as e:
            raise RuntimeError(f"GET https://me:{password}@host/x: 401, {{headers}} {{settings}} client_secret={{secret}}\\n"
                               + sys.argv[3]) from e

Login()(torch.ones(2, 4, requires_grad=True))
"""


def everything_of(run, *more):
    """All bytes of a run folder and of further files: names, content, and the rows of its tables in plain."""
    texts = []
    for path in [*run.rglob("*"), *more]:
        if path.is_file():
            texts.append(path.name.encode() + b"\n" + path.read_bytes())
        if path.suffix == ".parquet":
            texts.append(repr(pq.read_table(path).to_pylist()).encode())
    return b"\n".join(texts)


def test_a_long_unfinished_line_is_not_cut_within_a_secret(tmp_path):
    """Whatever the pieces are in which it comes; what stands far before its end is written at once."""
    line = " ".join(["and so on"] * 700) + " " + " ".join(SECRETS.values())
    for size in (700, 4096, 5000, 6990, 7003, 7040, 7055, 8192):
        tail = OutputTail(tmp_path / "output.log", hide=Redactor().output)
        for start in range(0, len(line), size):
            tail.write(line[start : start + size].encode())
            written = (tmp_path / "output.log").read_bytes()
            assert len(written) >= min(start + size, len(line)) - 6500
        tail.close()
        written = (tmp_path / "output.log").read_bytes()
        assert [s for s in SECRETS.values() if s.encode() in written] == []
        assert written.count(b"and so on") == 700


@pytest.mark.parametrize("keep", [False, pytest.param(True, marks=pytest.mark.suite)])
def test_planted_secrets_are_nowhere_on_the_disk_nor_on_the_page_unless_they_are_to_be_kept(bench, keep):
    """In an argument, the environment, the output of both streams, a warning, a log line, a child's command, the name of a
    checkpoint, an exception and its chain, the source lines in a traceback, and local variables of the frame that raised; forty
    harmless strings that look alike are printed, warned of and raised beside them."""
    token, key = SECRETS["a token of Hugging Face"], "4f9d8c7b6a5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c"
    password, bearer, held, database = "hunter-22x", "w7Kq2Zp9Lx4Vn8Tb6Rc1", "Zx81spectrum", "correct horse"
    planted = [token, key, password, bearer, held, database, *SECRETS.values()]
    bench.write(PLANTED.format(password=password, bearer=bearer, held=held))
    options = ["--keep-secrets"] if keep else []
    harmless = "\n".join(HARMLESS)

    recorded = bench.record(
        *["script.py", "--token", token, "\n".join([harmless, *SECRETS.values()])],
        options=options,
        WANDB_API_KEY=key,
        DB_PASSWORD=database,
    )

    assert recorded.returncode == 1, recorded.stderr
    assert token.encode() in recorded.stdout  # the terminal shows what plain python shows
    outputs = {name: bench.folder / name for name in ("page.html", "verdict.json", "trace.json")}
    with Trace(bench.run) as trace:
        outputs["page.html"].write_text(render_page(reduce_page(trace, diagnose(trace))), "utf-8")
    for command in (["diagnose", "--json"], ["export", "--out", str(outputs["trace.json"])]):
        done = CliRunner().invoke(build_app(), [command[0], str(bench.run), *command[1:]])
        assert not isinstance(done.exception, Exception), done.exception
        if command[0] == "diagnose":
            outputs["verdict.json"].write_text(done.stdout, "utf-8")
    everything = everything_of(bench.run, *outputs.values())
    assert [s for s in planted if s.encode() in everything] == (planted if keep else [])
    assert (HIDDEN.encode() in everything) is not keep
    if keep:
        return
    with Trace(bench.run) as trace:
        warned = "\n".join(trace.sql("SELECT message FROM events WHERE event = 'warning'")["message"])
        arguments = "\n".join(trace.manifest.argv)
        raised = trace.exit.exception.message
    printed = (bench.run / "output.log").read_text("utf-8")
    page = unescape(outputs["page.html"].read_text("utf-8"))
    for name, text in {
        "arguments": arguments,
        "warning": warned,
        "exception": raised,
        "output": printed,
        "page": page,
    }.items():
        assert [h for h in HARMLESS if h not in text] == [], name
