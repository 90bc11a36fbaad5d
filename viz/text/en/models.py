"""Translate: the box of models."""

TEXT = {
    "model.label": "Model",
    "model.embedded": "embedded",
    "model.choose": "Choose a model",
    "model.intro": "OPUS-MT models of the University of Helsinki are Transformers of this very kind, each trained on far more text and mostly for one pair of languages. The first time, one takes about 300 MB of download to this server. Your sentence stays.",
    "model.here": "On this server",
    "model.from_english": "From English into",
    "model.into_english": "Into English from",
    "model.others": "Other pairs",
    "model.pair": "{source} → {target}",
    "model.id": "Or the id of any OPUS-MT model",
    "model.load": "Load",
    "model.waiting": "{name} waits for its turn…",
    "model.downloading": "Downloading {name}: {done} of {total} MB",
    "model.reading": "Reading the weights of {name}…",
    # after the reason why the model of the page could not be fetched back
    "model.back": " This page is back with the embedded model; your sentence is still here.",
    "model.revision": "revision {revision}",
    "model.sizes": "{layers} layers, {heads} heads, width {d_model}",
    "model.warning.tie_conflict": "its file holds matrices that should be one and are not; left out: {detail}",
    "model.warning.not_applied": "rules of decoding that are not applied here: {detail}",
    "model.warning.own_positions": "its file's table of positions is up to {detail} away from that of sines and cosines, "
    "so what is said here of waves does not hold for it",
}
