"""From a name to a translator: the embedded model, a folder of either layout, or a model of the hub."""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from model.analysis.profile import read_profile
from model.best_heads import read_best_heads
from model.catalogue import ModelEntry, find_model, find_offered
from model.checkpoint import load_checkpoint
from model.device import lent_device, pick_device, ran_out_of_memory
from model.errors import InvalidSettingError, OutOfMemoryError
from model.hub import Progress, fetch
from model.layout import read_layout
from model.marian.config import read_marian_config
from model.marian.tokenizer import MarianTokenizer
from model.marian.weights import load_marian
from model.tokenizer import TOKENIZER_FILE, Tokenizer
from model.translator import Translator


def load_translator(
    source: str | Path | None = None,
    device: str | None = None,
    *,
    revision: str | None = None,
    progress: Progress | None = None,
) -> Translator:
    """A translator from a folder, from the hub, or (None or "embedded") the one that comes with the project.

    source: a folder as `save_checkpoint` writes it or of a Marian model; or a hub id such as "Helsinki-NLP/opus-mt-en-de", whose files
    are fetched into the cache of `huggingface_hub` the first time (`progress` is then called with bytes done and bytes in all).
    revision: a commit, tag or branch on the hub; None is the newest. `Translator.revision` is the commit that was loaded.
    device: "cuda", "cuda:1", "mps" or "cpu"; None takes ATLAS_DEVICE, or else the best one here.
    Raises ModelIdError, ModelNotAllowedError, CheckpointMissingError, CheckpointCorruptError, WrongArchitectureError,
    UnsupportedModelError, OutOfMemoryError, InvalidSettingError, DeviceError and the errors of `model.hub.fetch`.
    """
    return _load(find_model(source), pick_device(device), revision, progress)


def load_offered(name: str, revision: str | None = None, progress: Progress | None = None, max_bytes: int | None = None) -> Translator:
    """The same for a visitor of the page, who names what `model.catalogue.find_offered` allows. Made for `model.pool.ModelPool`."""
    return _load(find_offered(name), pick_device(), revision, progress, max_bytes)


def on_lent_device(translator: Translator) -> Translator:
    """The same translator on the GPU that is lent to this process, which was forked for a call: a copy of its model, on that device."""
    device = lent_device()
    if device.type == translator.device:
        return translator
    model, named = copy.deepcopy(translator.model).to(device), (translator.tokenizer, translator.name, translator.revision)
    return Translator(model, *named, translator.best_heads, translator.generation, translator.warnings, translator.profile)


def _load(
    entry: ModelEntry, device: torch.device, revision: str | None, progress: Progress | None, max_bytes: int | None = None
) -> Translator:
    if revision is not None and not isinstance(revision, str):
        raise InvalidSettingError("revision", revision, "a commit, tag or branch as text, or None for the newest")
    folder, commit = entry.folder, None
    if folder is None:
        fetched = fetch(entry.repo_id, revision or entry.revision, progress, max_bytes=max_bytes)
        folder, commit = fetched.folder, fetched.revision
    elif revision is not None:
        raise InvalidSettingError("revision", revision, "None: a folder has no revisions")
    try:
        if read_layout(folder) == "marian":
            config = read_marian_config(folder)
            tokenizer = MarianTokenizer(folder, name=entry.repo_id or entry.name, start_id=config.transformer.bos_id)
            loaded = load_marian(folder, config, device)
            return Translator(loaded.model, tokenizer, entry.name, commit, None, config.generation, loaded.warnings)
        model, tokenizer = load_checkpoint(folder, device), Tokenizer(folder / TOKENIZER_FILE)
        return Translator(model, tokenizer, entry.name, commit, read_best_heads(folder), profile=read_profile(folder))
    except (MemoryError, RuntimeError, OSError) as error:
        if not ran_out_of_memory(error):
            raise
        raise OutOfMemoryError(str(device)) from error
