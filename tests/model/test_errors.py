import copy
import inspect
import pickle

import pytest

from model import errors
from model.errors import AtlasError

EXAMPLES = [
    (errors.EmptyTextError(), "empty_text", {}),
    (errors.UnusableTextError(), "unusable_text", {}),
    (errors.TextTooLongError(700, 512), "text_too_long", {"num_tokens": 700, "limit": 512}),
    (errors.UnknownTargetError("xx", ("fra", "cmn")), "unknown_target", {"target": "xx", "supported": ["fra", "cmn"]}),
    (errors.InvalidSettingError("beam_size", 0, "1 to 8"), "invalid_setting", {"name": "beam_size", "value": "0", "allowed": "1 to 8"}),
    (errors.CheckpointMissingError("config.json"), "checkpoint_missing", {"path": "config.json"}),
    (errors.CheckpointCorruptError("a.safetensors", "cut off"), "checkpoint_corrupt", {"path": "a.safetensors", "detail": "cut off"}),
    (errors.UnsafeFileError("pytorch_model.bin"), "unsafe_file", {"path": "pytorch_model.bin"}),
    (errors.DeviceError("cuda:9", "there is one"), "device", {"device": "cuda:9", "detail": "there is one"}),
    (errors.ModelIdError("a b"), "model_id", {"model": "a b"}),
    (errors.ModelNotAllowedError("x/y", ("O", "P")), "model_not_allowed", {"model": "x/y", "allowed": ["O", "P"]}),
    (errors.HubUnreachableError("O/m", "no route"), "hub_unreachable", {"model": "O/m", "detail": "no route"}),
    (errors.UnknownRepositoryError("O/m"), "unknown_repository", {"model": "O/m"}),
    (errors.UnknownRevisionError("O/m", "v9"), "unknown_revision", {"model": "O/m", "revision": "v9"}),
    (errors.GatedRepositoryError("O/m"), "gated_repository", {"model": "O/m"}),
    (errors.WrongArchitectureError("GPT2LMHeadModel"), "wrong_architecture", {"found": "GPT2LMHeadModel"}),
    (errors.UnsupportedModelError("normalize_before"), "unsupported_model", {"detail": "normalize_before"}),
    (errors.DiskFullError(312, 40), "disk_full", {"needed": 312, "free": 40}),
    (errors.ModelTooLargeError(900, 500), "model_too_large", {"size": 900, "limit": 500}),
    (errors.OutOfMemoryError("cuda:0"), "out_of_memory", {"device": "cuda:0"}),
    (errors.TooManyLoadsError(), "too_many_loads", {}),
    (errors.NotWantedError(), "not_wanted", {}),
    (errors.ModelNotLoadedError("O/m"), "model_not_loaded", {"model": "O/m"}),
]


@pytest.mark.parametrize(("error", "code", "params"), EXAMPLES, ids=[code for _, code, _ in EXAMPLES])
def test_code_params_and_message(error, code, params):
    """The interface finds its own sentence by `code` and fills it from `params`."""
    assert isinstance(error, AtlasError)
    assert (error.code, type(error).code) == (code, code)
    assert error.params == params
    message = str(error)
    assert message.endswith(".") and "\n" not in message
    for value in params.values():
        for part in value if isinstance(value, list) else [value]:
            assert str(part) in message


def test_every_error_is_among_the_examples_and_has_its_own_code():
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, AtlasError)} - {AtlasError}
    assert {type(error) for error, _, _ in EXAMPLES} == kinds
    assert len({kind.code for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownTargetError("x" * 5000, ["fra"]),
        errors.InvalidSettingError("seed", "9" * 5000, "a number"),
        errors.ModelIdError("x" * 5000),
        errors.ModelNotLoadedError("x" * 5000),
    ],
    ids=["target", "setting", "id", "model"],
)
def test_what_a_visitor_sent_is_not_echoed_at_length(error):
    assert len(str(error)) < 200
    assert all(len(str(value)) < 100 for value in error.params.values())


@pytest.mark.parametrize(
    "name", ["Helsinki-NLP/opus-mt-tc-bible-big-deu_eng_fra-mul@" + "0a1b" * 10, "f" * 255, "o" * 96 + "/" + "n" * 96]
)
def test_the_name_of_a_model_stays_whole(name):
    """The page compares it with the name it knows, and a hint says what to type."""
    for error in (
        errors.ModelNotLoadedError(name),
        errors.ModelNotAllowedError(name, ["O"]),
        errors.HubUnreachableError(name, "no route"),
        errors.UnknownRepositoryError(name),
        errors.UnknownRevisionError(name, "b" * 60),
        errors.GatedRepositoryError(name),
    ):
        assert error.params["model"] == name and name in str(error)
    assert f"ATLAS_ALLOW_MODELS={name}." in str(errors.ModelNotAllowedError(name, ["O"]))


def test_a_cut_shows():
    assert errors.ModelIdError("x" * 41).params == {"model": "x" * 40 + "…"}
    assert errors.ModelNotLoadedError("x" * 301).params == {"model": "x" * 40 + "…"}
    assert errors.ModelIdError("x" * 40).params == {"model": "x" * 40}


def test_strange_values_can_be_named():
    assert "None" in str(errors.UnknownTargetError(None, ["fra"]))
    assert "[1]" in str(errors.InvalidSettingError("top_k", [1], "0 or more"))


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
@pytest.mark.parametrize("error", [error for error, _, _ in EXAMPLES], ids=[code for _, code, _ in EXAMPLES])
def test_an_error_survives_the_way_to_another_process(error, copied):
    again = copied(error)
    assert (type(again), str(again), again.params) == (type(error), str(error), error.params)


def test_what_a_damaged_file_holds_is_not_echoed_at_length():
    assert len(str(errors.CheckpointCorruptError("config.json", "x" * 5000))) < 600
