"""The tokenizers that a script uses, and the one that was saved: found in its frames, read from a folder."""

import json
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader

from ...schemas.files.probe_report import Picture, ProbeResult
from .cut_ends import ends_cut
from .ends_learnt import Targets, ends_learnt
from .listed_names import ListedNames
from .padding_inside import Lookups, filled_otherwise, padding_inside
from .special_tokens import named_numbers, special_tokens
from .tokenizers import consistent, padding_in_text, round_trip, vocabulary_of
from .trial import result, untried
from .two_numberings import numbered_apart
from .vocabularies import find_encoder, find_vocabularies, judge_vocabularies, script_files, script_variables

_MOST_TEXTS = 4


def find_tokenizer() -> Any:
    """The first object with ``encode`` and ``decode`` among the variables of the functions in progress, and one level in them.

    For a process of our own alone: reading the variables of a frame keeps them alive.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found = _among([*frame.f_locals.values()])
        if found is not None:
            return found
        frame = frame.f_back
    return _among([*vars(sys.modules["__main__"]).values()])


def _among(values: Iterable[Any]) -> Any:
    values = list(values)
    for value in values:
        if _is_tokenizer(value):
            return value
    for value in values:
        if type(value).__module__ in {"builtins", "torch"} or isinstance(value, type):
            continue
        held = getattr(value, "dataset", value) if isinstance(value, DataLoader) else value
        for name in ("tokenizer", "tokeniser", "tok", "processing_class", "enc", "encoder", "vocab"):
            inner = getattr(held, name, None) if hasattr(held, "__dict__") else None
            if _is_tokenizer(inner):
                return inner
    return None


def _is_tokenizer(value: Any) -> bool:
    if (
        value is None
        or isinstance(value, str | bytes | type | Tensor | nn.Module)
        or type(value).__module__ == "builtins"
    ):
        return False
    try:
        encodes = callable(getattr(value, "encode", None)) or (callable(value) and hasattr(value, "vocab"))
        return encodes and callable(getattr(value, "decode", None))
    except Exception:  # noqa: BLE001 — of a stranger's class
        return False


class _Vocabulary:
    """A vocabulary from a JSON file, which is all that some scripts save."""

    def __init__(self, content: dict[str, Any]) -> None:
        inner = content.get("vocab", content.get("stoi", content))
        self.vocabulary = {str(k): int(v) for k, v in inner.items() if isinstance(v, int)}

    def get_vocab(self) -> dict[str, int]:
        """Token → id."""
        return self.vocabulary


def folder_beside(models: Iterable[Any]) -> str | None:
    """The local folder that a model was loaded from by from_pretrained, if a tokenizer was saved there too."""
    for model in models:
        name = getattr(getattr(model, "config", None), "_name_or_path", None)
        if (
            isinstance(name, str)
            and name
            and any((Path(name) / file).exists() for file in ("tokenizer.json", "vocab.json"))
        ):
            return name
    return None


def saved_tokenizer(folder: Path, used: Any) -> Any:
    """The tokenizer saved in a folder, by the class of the one used, as tokenizer.json, or as vocab.json. None: there is none.

    Nothing is unpickled, and nothing is downloaded.
    """
    load = getattr(type(used), "from_pretrained", None)
    if callable(load) and (folder / "tokenizer_config.json").exists():
        return load(str(folder), local_files_only=True)
    path = folder / "tokenizer.json"
    if path.exists():
        return import_module("tokenizers").Tokenizer.from_file(str(path))  # only where the user has it
    for path in (folder, folder / "vocab.json"):
        if path.is_file() and path.suffix == ".json":
            return _Vocabulary(json.loads(path.read_text("utf-8")))
    return None


def judge(
    folder: str | None,
    batch: list[Tensor],
    shown: list[Picture],
    models: Iterable[nn.Module] = (),
    ignored: Iterable[int] = (),
    entered: Iterable[Tensor] = (),
    targets: Targets | None = None,
    lookups: Lookups | None = None,
    listed: ListedNames | None = None,
) -> list[ProbeResult]:
    """Compare the tokenizer in use with the saved one, and with the embeddings of the models, on texts of the first batch. Show
    these texts beside the numbers. ``ignored``: numbers that a loss was told to ignore. ``entered``: what entered the models.
    ``lookups``: what embeddings were asked for. ``listed``: what the script has listed of folders."""
    used = find_tokenizer()
    results = _of_tokenizer(used, folder, batch, shown, models, ignored) if used is not None else []
    if used is None and folder:
        results.append(untried("tokenizer", "no-tokenizer"))
    own = _of_the_script(
        used, [*batch, *entered], models, targets or Targets(), lookups or Lookups(), listed or ListedNames()
    )
    told = {r.probe for r in results if r.outcome != "passed"}
    told |= {r.probe for r in results} & {"pad-is-eos"}
    return [*results, *(found for found in own if found.probe not in told)]


def _of_the_script(
    used: Any,
    batch: list[Tensor],
    models: Iterable[nn.Module],
    targets: Targets,
    lookups: Lookups,
    listed: ListedNames,
) -> list[ProbeResult]:
    """What the script's own vocabularies, numbers and source say."""
    try:
        variables, files = script_variables(), script_files()
        vocabularies = find_vocabularies(variables)
        words = [v.words for v in vocabularies]
        known = [named_numbers(used, vocabulary_of(used) or {})] if used is not None else []
        known += [named_numbers(None, w) for w in words]
        known += [named_numbers(SimpleNamespace(**scope), words[0] if words else {}) for scope in variables]
        encoder = used if used is not None else find_encoder(variables)
        cut = ends_cut(encoder, [*batch], files) if encoder is not None else []
        named = [k["pad"] for k in known if "pad" in k]
        inside = filled_otherwise(lookups.found, named) or padding_inside(lookups.found, named)
        classes = listed.judge(variables, files, batch, models)
        return [
            *cut,
            *(one for one in (inside, classes) if one is not None),
            *(numbered_apart(variables) or judge_vocabularies(vocabularies, files, batch, models)),
            *ends_learnt(known, batch, targets, files),
        ]
    except Exception as e:  # noqa: BLE001 — of a stranger's objects
        return [untried("vocabulary", "tokenizer-raised", error=f"{type(e).__name__}: {e}"[:160])]


def _of_tokenizer(
    used: Any,
    folder: str | None,
    batch: list[Tensor],
    shown: list[Picture],
    models: Iterable[nn.Module],
    ignored: Iterable[int],
) -> list[ProbeResult]:
    texts: list[str] = []
    for tensor, picture in zip(batch, shown, strict=False):
        if tensor.is_floating_point() or tensor.dim() != 2:
            continue
        try:
            given = [used.decode([int(i) for i in row if i >= 0]) for row in tensor[:_MOST_TEXTS].tolist()]
            found = [text if isinstance(text, str) else " ".join(map(str, text)) for text in given]
        except Exception:  # noqa: BLE001, S112 — numbers that are no tokens
            continue
        picture.text = "\n".join(text[:200] for text in found)
        texts = texts or (
            found if all(isinstance(text, str) for text in given) else []
        )  # a list of words is no text to encode
    results = [round_trip(used, texts), *_end_left_out(used, batch), *special_tokens(used, batch, ignored)]
    if padding := padding_in_text(used, texts, _paddings(models)):
        results.append(padding)
    if folder is None:
        return results
    try:
        saved = saved_tokenizer(Path(folder), used)
        if isinstance(saved, _Vocabulary):
            texts = []
        return [consistent(used, saved, texts), *results]
    except Exception as e:  # noqa: BLE001 — of a stranger's file
        return [untried("tokenizer", "tokenizer-raised", error=f"{type(e).__name__}: {e}"[:160]), *results]


def _paddings(models: Iterable[nn.Module]) -> list[tuple[str, int]]:
    """Embeddings that keep a row at zero, with its number."""
    return [
        (name or "the model", module.padding_idx)
        for model in models
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.padding_idx is not None
    ]


def _end_left_out(used: Any, batch: list[Tensor]) -> list[ProbeResult]:
    """Whether the token for padding is the one that ends a text, and labels leave all of these out."""
    end, pad = getattr(used, "eos_token_id", None), getattr(used, "pad_token_id", None)
    if end is None or end != pad:
        return []
    whole = [t for t in batch if not t.is_floating_point() and t.dim() == 2]
    labels = [t for t in whole if bool((t == -100).any())]
    if any(bool((t == end).any()) for t in whole) and labels and not any(bool((t == end).any()) for t in labels):
        return [result("pad-is-eos", "doubtful", "pad-is-eos", token=str(getattr(used, "eos_token", end)))]
    return []
