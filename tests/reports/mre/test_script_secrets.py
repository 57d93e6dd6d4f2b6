"""A secret that stands literally in a script does not reach the script that is made from it; the code stays what it is."""

import ast

import pytest
from firstfault.reports.mre.script_secrets import without_secrets
from firstfault.schemas.files.secrets import HIDDEN

# put together here, so that no scanner takes this file for a leak
LETTERS = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
HUB, KEY, PLAIN = "hf_" + LETTERS, "4f9d8c7b6a5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c", "correct" + "horse"

LINES = [
    "API_KEY = '{KEY}'",
    "API_KEY: str = '{KEY}'",
    "os.environ['WANDB_API_KEY'] = '{KEY}'",
    "os.environ.setdefault('WANDB_API_KEY', '{KEY}')",
    "parser.add_argument('--api-key', default='{KEY}')",
    "wandb.login('{KEY}')",
    "wandb.login(key='{KEY}')",
    "subprocess.run(['hub', '--password', '{PLAIN}'])",
    "settings = {{'password': '{PLAIN}'}}",
    "connect(password='{PLAIN}')",
    "def connect(host, password='{PLAIN}', *, port=1): pass",
    "def connect(*, password='{PLAIN}'): pass",
    "class A:\n    def __init__(self):\n        self.password = b'{PLAIN}'",
    "if password == '{PLAIN}': pass",
    "x = '{HUB}'",
    "x = ('hf_aB3dE5gH7jK9mN1p'\n     'Q3sT5vW7yZ9bC1eF3hJ5')",
    "x = f'{{y}} Bearer w7Kq2Zp9Lx4Vn8Tb6Rc1 {{y!r}}'",
    "y = 1  # é {HUB}",
    "x = 'é', 'postgresql://me:{PLAIN}@db/x', 'é'",
    '"""Trains.\n\nWith {HUB} and\x0cpatience.\n"""\ny = 2',
]


@pytest.mark.parametrize("line", LINES)
def test_a_literal_is_replaced_and_the_rest_of_the_code_is_not(line):
    source = line.format(HUB=HUB, KEY=KEY, PLAIN=PLAIN)
    made, count = without_secrets(source)

    assert count == 1
    assert HIDDEN in made
    assert not [s for s in (HUB, LETTERS[:16], KEY, PLAIN, "w7Kq2Zp9Lx4Vn8Tb6Rc1") if s in made]
    assert _shape(made) == _shape(source)


def test_what_a_name_gives_away_once_is_replaced_where_no_name_stands_beside_it():
    made, count = without_secrets(f"TOKEN = '{KEY}'\nrun('--with', '{KEY}')  # {KEY}\n")
    assert (KEY in made, count) == (False, 3)


def test_code_without_secrets_is_handed_back_to_the_byte():
    source = (
        "secret_layers = getattr(model, 'hidden')\nkey = self.k_proj(x)\npad_token = '<pad>'  # token: see below\n"
        "self.key = nn.Linear(256, 256)\nx = {'sort_key': 'length2', 'tokens': 32768}\n\x0ccommit = 'sha1:"
        + KEY
        + "'\nprint(f'{key:>{width}} tokens/s: {rate:.1f}')\nlogin()\nparser.add_argument('--hf-token', help='of the hub')\n"
    )
    assert without_secrets(source) == (source, 0)


def _shape(source: str) -> list[type]:
    """What the code is made of, whatever its literals say."""
    return [type(node) for node in ast.walk(ast.parse(source))]
