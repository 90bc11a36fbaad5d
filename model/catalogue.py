"""Which models exist: the embedded one, folders, and those of the Hugging Face hub that may be loaded here.

A source is written as None or "embedded", as the path of a folder, or as a hub id "owner/name", also "owner/name@revision".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from model.errors import (
    MAX_MODEL_NAME,
    CheckpointCorruptError,
    CheckpointMissingError,
    InvalidSettingError,
    ModelIdError,
    ModelNotAllowedError,
)
from model.reasons import because

ENVIRONMENT_VARIABLE = "ATLAS_ALLOW_MODELS"
OWNERS = ("Helsinki-NLP",)
MAX_SOURCE = MAX_MODEL_NAME  # characters of a hub id with its revision

# No "..", no "--" and no dot or dash at an end, as on the hub: an id never leaves the folder that is named after it.
_WORD = r"(?!.*(?:\.\.|--))[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_REVISION = r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]{0,100}"
_HUB_ID = re.compile(rf"(?P<owner>{_WORD})/(?P<name>{_WORD})(?:@(?P<revision>{_REVISION}))?")
_PATH = re.compile(r"[/.~\\]|[A-Za-z]:[/\\]")
_PAIR = re.compile(r"opus-(?:mt|tatoeba)-(?:tc-(?:big|base|small|tiny)-|tc-bible-big-)?(?P<source>[A-Za-z_]+)-(?P<target>[A-Za-z_]+)")


@dataclass(frozen=True)
class ModelEntry:
    """A model that can be loaded: the name to show, and where it lies: in a folder, or on the hub (then `folder` is None)."""

    name: str
    folder: Path | None = None
    repo_id: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class HubPair:
    """An OPUS-MT model for one pair of languages. The codes are those that its name uses, but for Japanese ("jap" there)."""

    source: str
    target: str
    repo_id: str


# How `>>code<<` tokens spell the languages of names that speak of one language and mean several.
_OTHER_CODES = {"zh": ("cmn_Hans", "cmn", "zh"), "ar": ("ara", "ar"), "he": ("heb", "he"), "hi": ("hin", "hi")}

EMBEDDED = ModelEntry("embedded", Path(__file__).parent / "weights")


def _pairs() -> tuple[HubPair, ...]:
    # Not every pair has a model under the plain name: no en-ja (it is en-jap), and he-en, en-ko and en-tr only as "tc-big".
    other_names = {("en", "ja"): "en-jap", ("he", "en"): "tc-big-he-en", ("en", "ko"): "tc-big-en-ko", ("en", "tr"): "tc-big-en-tr"}
    from_english = ("fr", "de", "es", "zh", "ru", "ar", "ja", "he", "hi", "it", "ko", "nl", "sv", "tr", "uk", "vi")
    pairs = [("en", code) for code in from_english] + [(code, "en") for code in from_english]
    pairs += [("fr", "de"), ("de", "fr"), ("fr", "es"), ("es", "fr"), ("de", "es"), ("es", "de")]
    return tuple(HubPair(*pair, f"Helsinki-NLP/opus-mt-{other_names.get(pair, '-'.join(pair))}") for pair in pairs)


POPULAR = _pairs()


def find_model(source: str | Path | None = None) -> ModelEntry:
    """None or "embedded": the model that comes with the project; an existing folder; else a hub id that is allowed. Spaces around a name
    don't count.

    Raises ModelIdError for a name that is none of these, CheckpointMissingError for the path of a folder that isn't there,
    CheckpointCorruptError if it is a file, ModelNotAllowedError for a hub id of another owner.
    """
    if source is not None and not isinstance(source, (str, Path)):
        raise InvalidSettingError("source", type(source).__name__, "the path of a folder, a hub id, or None for the embedded model")
    if isinstance(source, str) and not (source.strip() and _exists(Path(source))):
        source = source.strip()
    if source is None or source == EMBEDDED.name:
        if not EMBEDDED.folder.is_dir():
            raise CheckpointMissingError("model/weights")
        return EMBEDDED
    if source == "":  # to Path that would be the working directory
        raise ModelIdError(source, or_folder=True)
    folder = Path(source)
    name = folder.name or str(source)
    if _exists(folder):
        if not folder.is_dir():
            raise CheckpointCorruptError(name, because("no_folder"))
        return ModelEntry(name, folder)
    if isinstance(source, str) and len(source) <= MAX_SOURCE and _HUB_ID.fullmatch(source):
        return _hub_entry(source)
    if isinstance(source, Path) or _PATH.match(source):
        raise CheckpointMissingError(name, is_folder=True)
    raise ModelIdError(source, or_folder=True)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def find_offered(name: object) -> ModelEntry:
    """The same for a visitor of the page, who may name the embedded model, a folder by the name that ATLAS_ALLOW_MODELS gives it, or a
    hub id, but never a path.

    Raises ModelIdError and ModelNotAllowedError, and CheckpointMissingError for a folder that has gone.
    """
    if name == EMBEDDED.name:
        return find_model()
    folders = offered_folders()
    if isinstance(name, str) and name in folders:
        return ModelEntry(name, find_model(folders[name]).folder)
    if not isinstance(name, str) or len(name) > MAX_SOURCE or not _HUB_ID.fullmatch(name):
        raise ModelIdError(name)
    return _hub_entry(name)


def _hub_entry(source: str) -> ModelEntry:
    parts = _HUB_ID.fullmatch(source)
    repo_id = f"{parts['owner']}/{parts['name']}"
    if not allowed(repo_id):
        raise ModelNotAllowedError(repo_id, allowed_hub_names())
    return ModelEntry(source, None, repo_id, parts["revision"])


# --- what ATLAS_ALLOW_MODELS says: owners, ids, "*" and folders, with commas between ---


def _entries() -> list[str]:
    return [entry.strip() for entry in os.environ.get(ENVIRONMENT_VARIABLE, "").split(",") if entry.strip()]


def allowed_hub_names() -> tuple[str, ...]:
    """Owners and ids that may be loaded; "*" stands for all."""
    return (*OWNERS, *(entry for entry in _entries() if not _PATH.match(entry) and entry not in OWNERS))


def allowed(repo_id: str) -> bool:
    """Whether this hub id may be loaded here. Owners and names are compared without regard to case, as on the hub."""
    names = {name.lower() for name in allowed_hub_names()}
    return bool({"*", repo_id.lower(), repo_id.split("/")[0].lower()} & names)


def offered_folders() -> dict[str, Path]:
    """Folders that ATLAS_ALLOW_MODELS offers to visitors (entries that begin with "/", ".", "~" or a drive), by their names."""
    folders: dict[str, Path] = {}
    for entry in _entries():
        if _PATH.match(entry):
            path = Path(entry).expanduser().resolve()
            name, number = path.name or "model", 2
            while name in folders or name == EMBEDDED.name:
                name, number = f"{path.name}-{number}", number + 1
            folders[name] = path
    return folders


# --- what a name tells ---


def language_pair(name: str) -> tuple[str, str] | None:
    """The two language codes in the name of an OPUS-MT model ("en", "de"), or None. Groups of languages have names like "ROMANCE"."""
    pair = _PAIR.fullmatch(name.split("@")[0].split("/")[-1])
    return (pair["source"], pair["target"]) if pair else None


def preferred_target(name: str, targets: tuple[str, ...]) -> str:
    """Of the languages a model translates into the one in its name, else the first."""
    pair = language_pair(name)
    wanted = () if pair is None else _OTHER_CODES.get(pair[1], (pair[1],))
    return next((target for code in wanted for target in targets if target == code), targets[0])
