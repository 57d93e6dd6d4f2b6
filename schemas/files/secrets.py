"""Replace secrets before they are written: tokens of known shapes, passwords in addresses, and what is named like a secret.

Two sources: patterns of what providers hand out, and the values of this process's own variables and arguments whose names say
token, key, secret or password. What only looks alike (a pad token, a sort key, a hash of a commit) stays readable: a value is
replaced for its shape, or for a name that is used for nothing else. Needs only Python's own modules.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

HIDDEN = "[secret]"
"""What stands in the place of a secret."""

_SHAPES = (
    r"gh[pousr]_[A-Za-z0-9]{36,255}",
    r"github_pat_[A-Za-z0-9_]{22,255}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|soat|agent)-[A-Za-z0-9_-]{20,128}",
    r"hf_[A-Za-z0-9]{30,64}",
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",
    r"AKID[A-Za-z0-9]{32}",
    r"LTAI[A-Za-z0-9]{12,20}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"GOCSPX-[A-Za-z0-9_-]{28}",
    r"ya29\.[A-Za-z0-9_-]{30,}",
    r"xox[abeoprs]-[0-9]{6,}[0-9A-Za-z-]{10,}",
    r"xapp-[0-9]-[A-Z0-9]+-[0-9]+-[0-9a-f]{32,}",
    r"(?:sk|rk|pk)_(?:live|test|prod)_[0-9A-Za-z]{20,128}",
    r"sk-(?:or-v1-)?[0-9a-f]{32,64}",
    r"nvapi-[A-Za-z0-9_-]{40,100}",
    r"r8_[A-Za-z0-9]{37}",
    r"gsk_[A-Za-z0-9]{52}",
    r"pplx-[A-Za-z0-9]{48}",
    r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
    r"eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/_-]{40,}={0,2}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgEI[A-Za-z0-9_-]{40,}",
    r"rubygems_[0-9a-f]{48}",
    r"dckr_pat_[A-Za-z0-9_-]{20,}",
    r"dapi[0-9a-f]{32}",
    r"do[opr]_v1_[0-9a-f]{64}",
    r"hv[bs]\.[A-Za-z0-9_-]{24,300}",
    r"pul-[0-9a-f]{40}",
    r"dp\.pt\.[A-Za-z0-9]{43}",
    r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,64}",
    r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}",
    r"sntryu_[0-9a-f]{64}",
    r"sntrys_eyJ[A-Za-z0-9+/=_]{40,}",
    r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
    r"lin_api_[A-Za-z0-9]{40}",
    r"ntn_[0-9]{11}[A-Za-z0-9]{35}",
    r"ATATT3[A-Za-z0-9_=-]{60,}",
    r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}",
    r"SK[0-9a-f]{32}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
    r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
)
"""As the providers document them; each has a prefix of its own, or a mark that nothing else has."""

_ESCAPES = (
    *(r"\\[abfnrtv]", r"\\x[0-9a-f]{2}", r"\\u[0-9a-f]{4}", r"%[0-9A-Fa-f]{2}"),
    *(r"\[[0-9]m", r"\[[0-9]{2}m", r";[0-9]m", r";[0-9]{2}m"),
)
"""What ends in a letter or a digit and belongs to no word: escapes of Python, JSON and addresses, and a terminal's colours."""
_BEGIN = rf"(?:(?<![A-Za-z0-9_])|{'|'.join(f'(?<={e})' for e in _ESCAPES)})"
"""Where a token or a word may begin."""

_SHAPE = re.compile(rf"{_BEGIN}(?:{'|'.join(_SHAPES)})(?![A-Za-z0-9])")
_SK = re.compile(rf"{_BEGIN}sk-[A-Za-z0-9_-]{{20,256}}(?![A-Za-z0-9])")
"""Keys of services with models; scikit-learn's names begin alike."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    re.DOTALL,
)
_HEADER = re.compile(rf"{_BEGIN}([Bb]earer|[Bb]asic|[Aa]uthorization: [Tt]oken)( +)([A-Za-z0-9._~+/-]{{12,}}=*)")
_ADDRESS = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'\"]*:)([^\s/@'\"]+)(@)")
_USER = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)([A-Za-z0-9_-]{20,})(@)")
"""A token in the place of a user, as in the addresses of error trackers."""
_WEBHOOK = re.compile(
    r"(\bhooks\.slack\.com/(?:services|workflows|triggers)/|\bdiscord(?:app)?\.com/api/webhooks/[0-9]+/)[A-Za-z0-9+/_-]{20,}"
)
_SIGNED = re.compile(
    r"([?&;](?:X-(?:Amz|Goog)-Signature|X-Amz-Security-Token|Signature|sig)=)([A-Za-z0-9+/_%.~-]{24,}=*)"
)
"""Who has a signed address may read what it names until it expires."""
_COOKIE = re.compile(r"\b((?:Set-)?Cookie[\"']?: *[\"']?)([\w.-]+=[^\r\n\"']{8,})")
_ASSIGNED = re.compile(
    rf"(?P<before>(?:{'|'.join(_ESCAPES)})?)(?P<name>[A-Za-z][\w.-]*)"
    r"(?P<between>[\"']?(?:\s{0,2}[=:]\s{0,2}|%3D)[\"']?)(?P<value>[^\s\"'&,;)\]}<]+)"
)
_SAYS = re.compile(r"token|key|secret|passw|passphrase|pwd|credential", re.IGNORECASE)

_SECRET_WORDS = {"password", "passwd", "passphrase", "secret", "apikey", "pwd", "credential", "credentials"}
_OF_A_KEY = {"api", "access", "secret", "private", "auth", "encryption", "signing", "license", "account", "master"}
_OF_A_TOKEN = {
    *{"api", "access", "auth", "bearer", "refresh", "session", "personal", "deploy", "bot", "secret"},
    *{"hf", "hub", "huggingface", "github", "gh", "gitlab", "wandb", "slack", "vault", "sas"},
}
_ABOUT = {"name", "names", "file", "path", "dir", "url", "type", "length", "len", "size", "count", "ids", "embeddings"}
"""Last words of names that tell something about a secret, which is none itself."""
_NO_SECRETS = {"none", "null", "true", "false", "required", "optional", "default", "unset", "empty", "str", "string"}

_SHORTEST = 4
_SHORTEST_MIXED = 8


class Redactor:
    """Hides secrets of one process. With ``keep`` it hands everything back as it is."""

    def __init__(
        self,
        arguments: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self.keep = keep
        self._values: set[str] = set()
        if not keep:
            self._values.update(v for n, v in (environment or {}).items() if _hides(n, v))
            self._values.update(value for _, value in _named(list(arguments)))

    @classmethod
    def of_this_process(cls, *, keep: bool) -> "Redactor":
        """With the arguments and the environment of this process."""
        return cls(sys.argv, os.environ, keep=keep)

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        longest_first = sorted(self._values, key=lambda v: (-len(v), v))
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """The text with its secrets hidden."""
        if self.keep or not text:
            return text
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _SHAPE.sub(HIDDEN, text)
        if "sk-" in text:
            text = _SK.sub(lambda m: HIDDEN if _mixed(m[0], upper=True) else m[0], text)
        if "PRIVATE KEY" in text:
            text = _PRIVATE_KEY.sub(HIDDEN, text)
        if "://" in text:
            text = _ADDRESS.sub(rf"\1{HIDDEN}\3", text)
            text = _USER.sub(lambda m: f"{m[1]}{HIDDEN}{m[3]}" if _mixed(m[2]) else m[0], text)
        if "=" in text:
            text = _SIGNED.sub(lambda m: f"{m[1]}{HIDDEN}" if _mixed(m[2]) else m[0], text)
            text = _COOKIE.sub(rf"\1{HIDDEN}", text)
        if "webhooks/" in text or "hooks.slack" in text:
            text = _WEBHOOK.sub(rf"\1{HIDDEN}", text)
        text = _HEADER.sub(lambda m: f"{m[1]}{m[2]}{HIDDEN}" if _mixed(m[3]) else m[0], text)
        return _ASSIGNED.sub(_assigned, text) if _SAYS.search(text) else text

    def output(self, data: bytes) -> bytes:
        """Output of a script, in whatever encoding."""
        if self.keep:
            return data
        text = data.decode("utf-8", "surrogateescape")
        hidden = self.text(text)
        return data if hidden == text else hidden.encode("utf-8", "surrogateescape")

    def arguments(self, arguments: Iterable[str]) -> list[str]:
        """A command line; a secret is known by the option in front of it too."""
        words = list(arguments)
        if self.keep:
            return words
        hidden = dict(_named(words))
        return [self.text(w.replace(hidden[i], HIDDEN) if i in hidden else w) for i, w in enumerate(words)]

    def value(self, value: Any, name: str = "") -> Any:
        """Anything that JSON can hold, with the texts in it hidden; keys of dictionaries are names."""
        if self.keep:
            return value
        if isinstance(value, str):
            return HIDDEN if _hides(name, value) else self.text(value)
        if isinstance(value, dict):
            return {self.value(k): self.value(v, str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(v, name) for v in value]
        return value


def _named(words: list[str]) -> Iterable[tuple[int, str]]:
    """(place, value) of the arguments that a name marks as secret: --token X, --token=X, token=X."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and _hides(name, value):
            yield i, value
        if word.startswith("-") and not equals and i + 1 < len(words) and _hides(word, words[i + 1]):
            yield i + 1, words[i + 1]


def _assigned(match: re.Match[str]) -> str:
    if not _hides(match["name"], match["value"], in_prose=True):
        return match[0]
    return f"{match['before']}{match['name']}{match['between']}{HIDDEN}"


def _hides(name: str, value: str, *, in_prose: bool = False) -> bool:
    """Whether a value is a secret by its name. In prose, where a name is only a word before a colon, its looks count too."""
    if not _SAYS.search(name) or len(value) < _SHORTEST or value.startswith(("-", "/", "~", "<", "[", "$", "%")):
        return False
    plain = value.strip("'\".").lower()
    if plain in _NO_SECRETS or re.fullmatch(r"[-+.,e\d]+%?", plain) or value == HIDDEN:
        return False
    words = [w.lower() for w in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", name) if w]
    if not words or words[-1] in _ABOUT:
        return False
    pairs = set(pairwise(words))
    if (
        _SECRET_WORDS & set(words)
        or any(b == "key" and a in _OF_A_KEY for a, b in pairs)
        or any(b == "token" and a in _OF_A_TOKEN for a, b in pairs)
    ):
        return _mixed(value) or not in_prose
    return words[-1] in {"token", "key"} and len(value) >= _SHORTEST_MIXED and _mixed(value, random=True)


def _mixed(text: str, *, upper: bool = False, random: bool = False) -> bool:
    """Whether letters and digits are mixed as in no word; ``upper``: of both cases; ``random``: not as in `q_proj.weight1`."""
    letters = any(c.isalpha() for c in text)
    digits = sum(c.isdigit() for c in text)
    if not (letters and digits):
        return False
    if upper and not (any(c.islower() for c in text) and any(c.isupper() for c in text)):
        return False
    return not random or (len(text) >= 16 and digits >= 3 and re.fullmatch(r"[A-Za-z0-9_+/=-]+", text) is not None)
