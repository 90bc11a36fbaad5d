"""The app as a server: its endpoints for programs, its limits, and that it starts whatever the weights folder holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import numpy as np
import pytest
from gradio_client.exceptions import AppError
from gradio_client.utils import extract_validation_message

import app
from model.best_heads import read_best_heads
from model.errors import CheckpointMissingError
from model.pool import ModelPool
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.translator import Translator
from tests.programs import http_client, program
from tests.tiny import tiny_config, train_tokenizer
from tests.viz.fakes import ARABIC, DECODER, FakeTranslator, recorded_run, shelf
from viz import page
from viz.delivery import PLOTLY_SCRIPT, plotly_script_url
from viz.panels.translate import translate
from viz.runs import RunCache

TRANSLATOR = FakeTranslator()


def test_the_recorded_example_opens_on_the_head_that_aligns_best() -> None:
    assert app.recorded_run().best_heads == read_best_heads(app.EXAMPLE.parent) != {}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    demo = app.build_app(TRANSLATOR, recorded_run(TRANSLATOR), pool=ModelPool(shelf, 10_000))
    options = page.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    yield address.rstrip("/")
    demo.close()


def test_the_public_endpoints_and_no_others(url: str) -> None:
    client = program(url)
    assert sorted(client.view_api(return_format="dict")["named_endpoints"]) == ["/attention", "/load_model", "/translate"]
    found = client.predict("I love you.", api_name="/translate")
    assert found["text"] == "Je t'aime."
    maps = client.predict("I love you.", "fra", 4, "encoder_self", 2, "1", api_name="/attention")
    trace = TRANSLATOR.trace(TRANSLATOR.translate("I love you."))
    np.testing.assert_allclose(maps["weights"], trace.encoder_self_attention[2, 1], atol=1e-6)
    assert client.predict(ARABIC, api_name="/load_model")["targets"] == ["ara"]
    assert client.predict("I love you.", "ara", model=ARABIC, api_name="/translate")["text"] == "أنا أحبك."
    with pytest.raises(AppError, match="not a model's id"):
        client.predict("../../etc/passwd", api_name="/load_model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": ""}, "Type a sentence"),
        ({"text": "word " * 1000}, "1002 tokens"),
        ({"text": "hello", "target": "tlh"}, "does not translate into “tlh”. It knows: fra, cmn"),
        ({"text": "hello", "beam_size": 1000}, "from 1 to 8"),
    ],
)
def test_errors_reach_a_program_as_one_sentence(url: str, arguments: dict, message: str) -> None:
    client = program(url)
    with pytest.raises(AppError, match=message) as caught:
        client.predict(**arguments, api_name="/translate")
    assert "Traceback" not in str(caught.value) and "/" not in str(caught.value).replace("and/or", "")


def test_attention_is_range_checked(url: str) -> None:
    client = program(url)
    for bad in ({"layer": DECODER[0]}, {"layer": -1}, {"head": "9"}, {"head": "x"}, {"kind": "diagonal"}):
        with pytest.raises(AppError, match="not possible"):
            client.predict("hello", **bad, api_name="/attention")


def test_the_page_names_plotly_early_and_serves_it(url: str) -> None:
    with http_client(url) as http:
        answer = http.get("/")
        assert answer.headers["link"] == f"<{plotly_script_url()}>; rel=preload; as=script"
        assert "link" not in http.get("/config").headers
        script = http.get("/" + plotly_script_url())
        assert script.status_code == 200 and len(script.content) == PLOTLY_SCRIPT.stat().st_size
        # nothing else of this machine
        assert http.get(f"/gradio_api/file={Path(app.__file__).resolve()}").status_code == 403
        assert http.get("/monitoring").status_code in (403, 404)
        assert http.get("/gradio_api/runs").status_code == 404


def test_what_the_page_names_is_served(url: str) -> None:
    """Gradio's own manifest and OpenAPI schema name addresses that are closed here."""
    with http_client(url) as http:
        (named,) = re.findall('<link rel="manifest" href="([^"]+)"', http.get("/").text)
        manifest = http.get(named)
        assert manifest.headers["content-type"] == "application/manifest+json" and manifest.json()["name"] == "Attention Atlas"
        addresses = [icon["src"] for icon in manifest.json()["icons"]] + [manifest.json()["start_url"]]
        assert [http.get(urljoin(named, address)).status_code for address in addresses] == [200, 200]
        assert http.get("/gradio_api/openapi.json").status_code == 404 and http.get("/gradio_api/info").status_code == 200


def test_a_refusal_of_the_door_can_be_read_by_the_client(url: str) -> None:
    """gradio_client takes a 422 for something else, and fails over it."""
    with http_client(url) as http:
        for path, body in (("queue/join", {"fn_index": 0, "data": [1] * 50, "session_hash": "x"}), ("call/v2/translate", {"txt": "a"}),
                           ("call/translate", {"data": [{"path": "a", "meta": {}}, "", 4, "", "embedded"]})):
            refused = http.post(f"/gradio_api/{path}", json=body)
            assert refused.is_client_error and isinstance(refused.json()["detail"], str)
            assert extract_validation_message(refused) is None


def test_the_head_cannot_be_closed_by_a_text() -> None:
    head = page.head()
    tables = head.split("window.atlasText = ")[1].split("</script>")[0]
    assert "<" not in tables
    assert "https://" not in head.replace("http://www.w3.org", "")


def test_every_event_that_runs_the_model_shares_one_slot() -> None:
    demo = app.build_app(TRANSLATOR, recorded_run(TRANSLATOR))
    by_name = {fn.name: fn for fn in demo.fns.values()}
    for name in ("on_translate", "translate_endpoint", "attention_endpoint"):
        assert by_name[name].concurrency_id == "model" and by_name[name].concurrency_limit == 1
    assert by_name["on_draw"].concurrency_id == "draw"
    waits, asks = by_name["load_endpoint"], by_name["on_load"]
    assert waits.concurrency_id not in (asks.concurrency_id, "model", "draw") and waits.concurrency_limit is None


def test_a_missing_or_damaged_recording_is_no_crash(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert app.recorded_run(tmp_path / "none.npz") is None
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 truncated")
    assert app.recorded_run(tmp_path / "bad.npz") is None
    assert "bad.npz" in capsys.readouterr().out
    app.build_app(None, None, CheckpointMissingError("config.json"))


def test_the_handlers_work_with_a_real_model(tmp_path: Path) -> None:
    tokenizer = Tokenizer(train_tokenizer(tmp_path / "tokenizer.model"))
    translator = Translator(Transformer(tiny_config(tokenizer.vocab_size)), tokenizer)
    store = {"lang": "en", "target": "fra", "beam_size": 2, "kind": "cross", "layer": 1, "head": 1, "rows": "read"}
    message, result, view = translate(RunCache(translator), "I love 😀 you.", store)
    assert message is None and result["maps"]["cross"] == {"layers": 2, "heads": 2} and view
    app.build_app(translator)
