"""The whole app with a tiny model, as a process of its own whose log can be read: `python -m tests.fuzz.serve`. Prints its address."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import app
from model.pool import ModelPool
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests.tiny import random_model, tiny_config, train_tokenizer
from tests.viz.fakes import shelf
from viz import page
from viz.runs import Request, Run


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Tokenizer(train_tokenizer(Path(folder) / "tokenizer.model"))
        translator = Translator(random_model(tiny_config(tokenizer.vocab_size), eos_bias=3.0), tokenizer, name="tiny")
    translation = translator.translate("I am a student.", "fra", 1)
    recorded = Run.of(Request("I am a student.", "fra", recorded=True), translation, translator.examine(translation))
    demo = app.build_app(translator, recorded, pool=ModelPool(shelf, 10_000))
    options = page.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    print("ADDRESS", url, flush=True)
    while os.getppid() == int(sys.argv[1]):  # never outlives the test that started it
        time.sleep(0.5)


if __name__ == "__main__":
    main()
