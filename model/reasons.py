"""Why a file, a model or a setting is refused, as a clause of an error's message: English, with a key by which an interface says it in
another language. What a library or the system says itself is not in here, and is quoted as it is."""

from __future__ import annotations

REASONS = {
    # of a file
    "unreadable": "it cannot be read: {why}",
    "empty": "it is empty",
    "damaged": "it is truncated or damaged",
    "damaged_why": "it is truncated or damaged: {why}",
    "no_utf8": "it is not UTF-8",
    "no_json": "it is truncated or no JSON",
    "no_json_why": "it is not readable JSON: {why}",
    "no_object": "it is not a JSON object",
    "no_sentencepiece": "it is truncated or no SentencePiece model",
    "no_special_tokens": "it lacks one of <pad>, <s>, </s> and <unk>",
    "no_folder": "it is a file, not a folder",
    "no_format": "its format is not {format}",
    "no_architecture": "it says of no architecture what the model is",
    # of what is in it
    "lacks": "it lacks {what}",
    "unknown": "it has unknown {what}",
    "unknown_entries": "unknown entries {what}",
    "lacks_and_unknown": "it lacks {lacking} and has unknown {unknown}",
    "twice": "{what} is in another file as well",
    "shape": "{what} has shape {found}, expected {wanted}",
    "kind": "{what} holds {found}, expected one of {wanted}",
    "not_finite": "{what} holds values that are not finite numbers",
    "computes_not_finite": "the model computes values that are not finite numbers",
    "wrong_value": "{what} is {found}, expected {wanted}",
    "other_tokenizer": "its {what} is {found}, that of the model is {wanted}",
    "other_vocabulary": "its {what} is {found}, that of {file} is {wanted}",
    "no_memory": "the model does not fit into memory",
    # of a model that is not built here
    "setting": "{what} is {found}",
    "too_many_positions": "max_position_embeddings is {found}, more than {limit}",
    "one_position": "it has a single position, which the end of the sentence takes",
    # of the hub
    "offline": "HF_HUB_OFFLINE is set",
    "no_connection": "no connection",
    "no_answer": "no answer in time",
    "broken_off": "the transfer broke off",
    "answered": "it answered {status}",
    # of a device
    "no_device": "it is no name of a device; available: {available}",
    "device_missing": "it is not there; available: {available}",
    # what a value should be
    "whole_number": "a whole number from {low} to {high}",
    "named_or_whole_number": "{named} or a whole number from {low} to {high}",
    "positive": "a positive whole number",
    "number": "a number",
    "flag": "true or false",
    "text": "text",
}


class Reason(str):
    """The clause itself, with its `key` in REASONS and the `params` it was filled with, among which may be other reasons."""

    key: str
    params: dict[str, object]


def because(key: str, **params: object) -> Reason:
    """The clause of this key."""
    made = Reason(REASONS[key].format_map({name: str(value) for name, value in params.items()}))
    made.key, made.params = key, params
    return made
