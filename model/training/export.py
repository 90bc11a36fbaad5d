"""From a run folder to the checkpoint that is shipped: averaged weights, vocabulary, model card, the recorded example and the scores."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sentencepiece as spm

from model.analysis.profile import PROFILE_FILE, profile_heads
from model.best_heads import EVALUATION_FILE
from model.checkpoint import load_config, load_state, save_checkpoint
from model.config import TransformerConfig, count_parameters
from model.loading import load_translator
from model.recording import save_run
from model.tokenizer import TOKENIZER_FILE
from model.training.corpus import Pair
from model.training.initial import LOG_FILE, RUN_FILE, TRAINING_FILE, initial_weights
from model.training.loop import average_snapshots
from model.transformer import Transformer
from model.translator import Translator

PREPARED_FILE = "prepared.json"
EXAMPLE_FILE = "example.npz"
EXAMPLE_TEXT, EXAMPLE_TARGET = "I am a student.", "fra"
# Everything an export writes, as patterns of names.
WRITTEN = ("config.json", "model*.safetensors", "model.safetensors.index.json", TOKENIZER_FILE, "README.md")
WRITTEN += (EVALUATION_FILE, TRAINING_FILE, EXAMPLE_FILE, PROFILE_FILE)
PROFILED_SENTENCES = 500
LANGUAGES = {"fra": "French", "cmn": "Chinese (simplified)"}

CARD = """\
---
license: cc-by-2.0
language: [en, fr, zh]
pipeline_tag: translation
---
# The embedded translator: English to French and to Chinese

A plain encoder-decoder Transformer (Vaswani et al. 2017) of {parameters:,} parameters, small enough to translate at once on a processor and
trained from scratch for Attention Atlas. The target language is chosen by a source prefix, `>>fra<<` or `>>cmn<<`. This card is written by
`python -m model.training export` from the run's own figures.

## Architecture
{architecture}

## Scores
Beam {beam_size}, on held-out sentences that were never trained on, each source once against all its references.

| into | sentences | BLEU | chrF | sacrebleu signature |
|---|---|---|---|---|
{scores}

## Alignment
{alignment}

## Training
{steps:,} updates ({epochs} passes over {pairs:,} pairs, {tokens:,} target tokens) in {hours:.1f} hours of computation; the last
{snapshots} snapshots averaged{mixed}.{init}

| setting | value |
|---|---|
{settings}

To reproduce, with every option that differs from its default:

```
{recipe}
```

The README says how `download` fetches the pairs; each command explains its options with `--help`.

## Data and credit
{credit} Beside them, in the training split only: {extra}.

## Known weaknesses
It has seen short everyday sentences, nothing else: long or technical text comes out badly, rare names and words are guessed at, and it has
no idea of the world. What it makes of a few sentences:

{examples}
"""

# Of data that was not fetched by `download`, which leaves its own.
CREDIT = """\
Sentence pairs of [Tatoeba](https://tatoeba.org) by its contributors, by way of manythings.org/anki (tab-delimited bilingual pairs),
licence CC BY 2.0 FR."""
EXTRA_CREDIT = {
    "tico19": "TICO-19 (Anastasopoulos et al. 2020, CC0 1.0)",
    "convlab": "the human-checked dialogue translations of ConvLab-2 (Zhu et al. 2020, Apache-2.0)",
    "diabla": "DiaBLa (Bawden et al. 2021, CC BY-SA 4.0)",
}


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """An empty folder beside `out`, which takes the place of `out` once the block has ended well; until then `out` stays as it was.

    So new weights never lie beside the scores of old ones. Raises FileExistsError, before anything is done, if `out` holds files that
    an export does not write: they would be lost.
    """
    out = out.resolve()
    new, old = (out.with_name(f".{out.name}.{word}") for word in ("new", "old"))
    if out.exists() and (strange := sorted(path.name for path in out.iterdir() if not any(path.match(kind) for kind in WRITTEN))):
        raise FileExistsError(f"{out.name} holds {', '.join(strange[:3])}, which an export would remove: name another --out")
    for left in (new, old):  # of an export that was killed
        if left is old and not out.exists() and old.exists():
            old.rename(out)
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        yield new
        for path in new.iterdir():
            path.chmod(0o644)
        new.chmod(0o755)
        if out.exists():
            out.rename(old)
        new.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def read_facts(folder: Path, name: str) -> dict:
    """run.json or prepared.json. Raises FileNotFoundError with what to do, ValueError if it is no JSON."""
    path = folder / name
    if not path.is_file():
        what = "a run: name the right --run-folder" if name == RUN_FILE else "prepared data: name the right --data"
        raise FileNotFoundError(f"{path} is missing, so this is no folder of {what}")
    return json.loads(path.read_text(encoding="utf-8"))


def build(run: Path, data: Path, out: Path, average: int, recipe: Sequence[str] = (), mix: Path | None = None) -> Translator:
    """Averages the last `average` snapshots of `run` and writes the checkpoint with its vocabulary to `out`. Returns it, loaded from there.

    recipe: the commands that repeat it, for the card. mix: an exported folder or a run whose weights are averaged with those, half and
    half (Wortsman et al. 2022, arXiv:2203.05482): two ends of one run are better together than each alone.
    Raises FileNotFoundError if the run has no snapshots, ValueError if their log or their vocabulary is not theirs, or if `mix` is of
    another model.
    """
    facts = read_facts(run, RUN_FILE)
    vocabulary = hashlib.sha256((data / TOKENIZER_FILE).read_bytes()).hexdigest()
    if facts.get("data", {}).get("vocabulary", vocabulary) != vocabulary:
        raise ValueError(f"the run {run.name} was trained with another vocabulary than that of {data.name}: name its own --data")
    model = Transformer(TransformerConfig(**facts["config"]))
    state, names = average_snapshots(run, average)
    mixed: dict[str, object] = {}
    if mix is not None:
        other, mixed = initial_weights(mix, model.config, spm.SentencePieceProcessor(model_file=str(data / TOKENIZER_FILE)))
        state = {key: (value + other[key].float()) / 2 for key, value in state.items()}
    # Tied embeddings stand in the state twice; the checkpoint holds them once.
    if model.config.tie_embeddings:
        del state["tgt_embedding.tokens.weight"]
    load_state(model, state, "snapshots")
    save_checkpoint(model, out)
    shutil.copyfile(data / TOKENIZER_FILE, out / TOKENIZER_FILE)
    log = [json.loads(line) for line in (run / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    reached = next((entry for entry in reversed(log) if entry["step"] == int(names[-1])), None)
    if reached is None:
        raise ValueError(f"{LOG_FILE} has no line for step {int(names[-1])}, of which there is a snapshot")
    training = {"reached": reached, "snapshots": [int(name) for name in names], "prepared": read_facts(data, PREPARED_FILE)}
    training |= {name: facts[name] for name in ("settings", "sampling", "init") if name in facts}
    training |= {"mixed": mixed} if mixed else {}
    training["recipe"] = list(recipe)
    _write_json(out / TRAINING_FILE, training)
    return load_translator(out, "cpu")


def record_example(out: Path) -> None:
    """Translates the worked example and stores the run with all that the page shows of it: the page's first picture."""
    translator = load_translator(out, "cpu")
    target = EXAMPLE_TARGET if EXAMPLE_TARGET in translator.targets else translator.targets[0]
    translation = translator.translate(EXAMPLE_TEXT, target)
    save_run(out / EXAMPLE_FILE, translation, translator.examine(translation))


def write_card(out: Path) -> None:
    """Writes the model card from config.json, training.json and evaluation.json. Raises FileNotFoundError if one is missing."""
    config = load_config(out)
    training = json.loads((out / TRAINING_FILE).read_text(encoding="utf-8"))
    evaluation = json.loads((out / EVALUATION_FILE).read_text(encoding="utf-8"))
    parts = count_parameters(config)
    rows = [
        ("layers", f"{config.num_encoder_layers} encoder, {config.num_decoder_layers} decoder"),
        ("d_model, heads, d_ff", f"{config.d_model}, {config.num_heads}, {config.d_ff}"),
        ("normalisation, activation", f"{config.norm}-norm, {config.activation}"),
        ("vocabulary", f"{config.vocab_size:,} SentencePiece unigram pieces, shared, byte fallback"),
        ("embeddings", "source, target and output tied" if config.tie_embeddings else "not tied"),
        ("positions", f"sinusoidal, {config.position_layout}"),
    ]
    rows += [(f"parameters: {name.replace('_', ' ')}", f"{count:,}") for name, count in parts.items() if count]
    settings = {**training["settings"], "dropout": config.dropout, **training["sampling"]}
    scores = [
        f"| {LANGUAGES.get(target, target)} | {s['sentences']:,} | {s['bleu']} | {s['chrf']} | `{s['signature']}` |"
        for target, s in evaluation["scores"].items()
    ]
    extra = [EXTRA_CREDIT.get(name, name) for name in training["prepared"]["extra"]]
    if own := training["prepared"].get("own"):
        counts = " and ".join(f"{count:,} into {LANGUAGES.get(target, target)}" for target, count in own["pairs"].items())
        extra.append(f"translations of more English sentences of Tatoeba by the model `{own['by']}` itself ({counts})")
    card = CARD.format(
        parameters=sum(parts.values()),
        architecture="\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]),
        beam_size=evaluation["beam_size"],
        scores="\n".join(scores),
        alignment=_alignment_text(evaluation.get("alignment")),
        steps=training["reached"]["step"],
        epochs=training["reached"]["epoch"],
        pairs=sum(training["prepared"]["train"].values()),
        tokens=training["reached"]["tokens"],
        hours=training["reached"]["seconds"] / 3600,
        snapshots=len(training["snapshots"]),
        mixed=_mixed_text(training.get("mixed")),
        init=_init_text(training.get("init")),
        recipe="\n".join(training.get("recipe") or ["python -m model.training --help"]),
        credit=training["prepared"].get("credit", CREDIT),
        settings="\n".join(f"| {name.replace('_', ' ')} | {value} |" for name, value in settings.items()),
        extra="; ".join(extra) if extra else "nothing",
        examples="\n\n".join(_example_table(target, pairs) for target, pairs in evaluation["examples"].items()),
    )
    (out / "README.md").write_text(card, encoding="utf-8")


def write_evaluation(out: Path, measured: dict) -> None:
    """Stores what was measured ({"beam_size", "scores", "examples", perhaps "alignment"}) beside the weights."""
    _write_json(out / EVALUATION_FILE, measured)


def write_profile(out: Path, translator: Translator, pairs: Sequence[Pair], limit: int | None = None) -> None:
    """Stores what the heads do over PROFILED_SENTENCES of `pairs` (drawn, with their references forced), or `limit` if that is fewer."""
    count = min(len(pairs), PROFILED_SENTENCES, limit or PROFILED_SENTENCES)
    drawn = random.Random(0).sample(list(pairs), count)
    _write_json(out / PROFILE_FILE, profile_heads(translator, [(pair.source, pair.target, pair.translation) for pair in drawn]))


def _mixed_text(mixed: dict | None) -> str:
    return "" if mixed is None else f", and their mean with the weights of `{mixed['from']}`, half and half"


def _init_text(init: dict | None) -> str:
    if init is None:
        return ""
    reached = init.get("reached") or {}
    figures = [f"{reached['step']:,} updates"] if "step" in reached else []
    figures += [f"{reached['tokens']:,} target tokens"] if "tokens" in reached else []
    figures += [f"{reached['seconds'] / 3600:.1f} hours"] if "seconds" in reached else []
    told = f" ({', '.join(figures)})" if figures else ""
    return f" These are counted from its start: it began with the weights of `{init['from']}`{told}.{_init_text(init.get('init'))}"


def _alignment_text(measured: dict | None) -> str:
    if measured is None:
        return "Not measured for this export."
    rows = []
    for labelling, word in (("predicted", "predicted"), ("read", "read")):
        rates = measured[labelling]
        best, layers = rates["best"], ", ".join(f"L{i} {rate:.2f}" for i, rate in enumerate(rates["layers"]))
        rows.append(f"| {word} | L{best['layer']} H{best['head']}: {best['aer']:.2f} | {layers} | {rates['all']:.2f} |")
    head = (
        f"Alignment error rate of cross-attention (0 is perfect) on {measured['sentences']} sentence pairs of French stories\n"
        "aligned by hand (Alibi, CC BY-SA 4.0), the reference given, one link per French word. Attention was not trained towards it.\n\n"
        "| rows labelled by the token | best head | mean of each layer | mean of all |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows)


def _example_table(target: str, pairs: dict[str, str]) -> str:
    rows = ("| {} | {} |".format(*(side.replace("|", "\\|") for side in pair)) for pair in pairs.items())
    return "\n".join([f"| English | {LANGUAGES.get(target, target)} |", "|---|---|", *rows])


def _write_json(path: Path, values: dict) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
