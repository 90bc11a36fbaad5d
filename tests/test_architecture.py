"""Which part may import which, and the limits every file keeps to. Read from the source with `ast`: nothing is imported or run."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = {"runs", "data"}  # at the top: what training makes
MAX_LINES = 400
Sources = dict[str, str]  # path from the root, with "/": text of the file


@dataclass(frozen=True)
class Rule:
    """Modules under `inside` import nothing under `forbidden`; with `through`, not by way of our other modules either."""

    inside: str
    forbidden: tuple[str, ...]
    through: bool = False


# app -> viz.panels -> (viz.figures, model)
RULES = (
    Rule("model", ("viz", "app", "tests", "plotly", "gradio"), through=True),
    Rule("viz", ("app", "tests", "torch")),
    Rule("viz.figures", ("model", "gradio", "viz.panels", "viz.components"), through=True),
    Rule("viz.components", ("model", "viz.panels")),
    Rule("viz.text", ("model", "viz.panels")),
)
# Present on a Hugging Face Space and nowhere else, so imported only where it is found.
OPTIONAL = {"spaces"}


# --- the checks: plain functions of sources, so that they can be tried on small examples ---


def module_name(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Import:
    target: str  # in full: `from a.b import c` is "a.b.c", be c a module or not
    line: int
    for_types_only: bool


def imports_of(path: str, source: str) -> list[Import]:
    """Every import of a file, those inside functions included, relative ones resolved."""
    found: list[Import] = []
    package = module_name(path).split(".") if path.endswith("__init__.py") else module_name(path).split(".")[:-1]

    def visit(node: ast.AST, for_types_only: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, for_types_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found.extend(Import(base if alias.name == "*" else f"{base}.{alias.name}", node.lineno, for_types_only) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"__import__", "import_module", "importlib.import_module"}:
            if node.args and isinstance(node.args[0], ast.Constant):
                found.append(Import(str(node.args[0].value), node.lineno, for_types_only))
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for child in node.body:
                visit(child, True)
            for child in node.orelse:
                visit(child, for_types_only)
            return
        for child in ast.iter_child_nodes(node):
            visit(child, for_types_only)

    visit(ast.parse(source), False)
    return found


def is_under(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def own_module(target: str, known: set[str]) -> str | None:
    """The module of ours that an import loads: `model.config.TransformerConfig` loads `model.config`."""
    parts = target.split(".")
    return next((name for stop in range(len(parts), 0, -1) if (name := ".".join(parts[:stop])) in known), None)


def rule_violations(sources: Sources, rules: tuple[Rule, ...] = RULES) -> list[str]:
    imports = {module_name(path): imports_of(path, text) for path, text in sources.items()}
    paths = {module_name(path): path for path in sources}
    found = []
    for rule in rules:
        for start in (name for name in imports if is_under(name, rule.inside)):
            queue, seen = [start], {start}
            for name in queue:  # grows while it is walked
                for item in imports[name]:
                    if any(is_under(item.target, forbidden) for forbidden in rule.forbidden):
                        by_way = "" if name == start else f", reached from {start}"
                        found.append(f"{paths[name]}:{item.line} imports {item.target}{by_way}: not allowed in {rule.inside}")
                    loaded = own_module(item.target, set(imports))
                    if rule.through and loaded and loaded not in seen:
                        seen.add(loaded)
                        queue.append(loaded)
    return found


def import_cycle(sources: Sources) -> list[str]:
    """The modules of one import cycle in order, or nothing. An import for type checkers only is not followed."""
    imports = {module_name(path): imports_of(path, text) for path, text in sources.items()}
    graph = {
        name: {loaded for item in items if not item.for_types_only and (loaded := own_module(item.target, set(imports)))} - {name}
        for name, items in imports.items()
    }
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for loaded in sorted(graph[name]):
            if cycle := walk(loaded, [*trail, name]):
                return cycle
        done.add(name)
        return []

    for name in sorted(graph):
        if cycle := walk(name, []):
            return cycle
    return []


def without_docstring(sources: Sources) -> list[str]:
    """Modules with code and no docstring. An empty `__init__.py` needs none."""
    return [path for path, text in sources.items() if text.strip() and ast.get_docstring(ast.parse(text)) is None]


def too_long(sources: Sources, limit: int = MAX_LINES) -> list[str]:
    return [f"{path}: {count} lines" for path, text in sources.items() if (count := len(text.splitlines())) > limit]


def undeclared_packages(sources: Sources, requirements: str) -> list[str]:
    """Imports that are neither ours, nor Python's, nor a line of the requirements."""
    declared = {match.lower().replace("-", "_") for match in re.findall(r"^([A-Za-z0-9_-]+)", requirements, re.MULTILINE)}
    own = {module_name(path).split(".")[0] for path in sources}
    allowed = declared | own | set(sys.stdlib_module_names) | OPTIONAL
    return [
        f"{path}:{item.line} imports {item.target}"
        for path, text in sources.items()
        for item in imports_of(path, text)
        if item.target.split(".")[0].lower() not in allowed
    ]


_HOST = r"\s*(?:https?:)?//[\w-]+\."
_QUOTED = rf"\\?[\"'`]{_HOST}"
_URL = rf"\\?[\"'`]?{_HOST}"
_OUTSIDE = re.compile(
    "|".join(
        [
            rf"<(?:script|link)\b[^>]*?\b(?:src|href)\s*=\s*{_URL}",
            rf"@import\s+(?:url\(\s*)?{_URL}",
            rf"\burl\(\s*{_URL}",
            rf"\b(?:from|import|importScripts)\s*\(?\s*{_QUOTED}",
            rf"\.(?:src|href)\s*=\s*{_URL}",
            rf"\bsetAttribute\(\s*[\"'](?:src|href)[\"']\s*,\s*{_URL}",
            r"\bGoogleFont\(",
            r"\binclude_(?:plotlyjs|mathjax)\s*=\s*[\"'](?:cdn|https?:)",
        ]
    ),
    re.IGNORECASE,
)


def outside_sources(texts: Sources) -> list[str]:
    """Places that would make the page load a script, style or font from another host."""
    return [
        f"{path}:{text[: match.start()].count(chr(10)) + 1} {match[0]}" for path, text in texts.items() for match in _OUTSIDE.finditer(text)
    ]


# --- the repository ---


def repository_files(*endings: str) -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        environment = {name for name in folders if Path(folder, name, "pyvenv.cfg").exists()}
        skipped = environment | (NOT_OURS if Path(folder) == ROOT else set()) | {"__pycache__", "node_modules"}
        folders[:] = sorted(name for name in folders if name not in skipped and not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(endings))


def read(*endings: str) -> Sources:
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in repository_files(*endings)}


@pytest.fixture(scope="module")
def python_sources() -> Sources:
    return read(".py")


@pytest.fixture(scope="module")
def app_sources(python_sources: Sources) -> Sources:
    return {path: text for path, text in python_sources.items() if not path.startswith("tests/")}


def test_the_repository_is_seen(app_sources: Sources) -> None:
    names = {module_name(path) for path in app_sources}
    assert {"app", "model.transformer", "model.translator", "viz.components"} <= names
    assert any(is_under(name, "viz.figures") for name in names) and any(is_under(name, "viz.panels") for name in names)


def test_import_rules(app_sources: Sources) -> None:
    assert rule_violations(app_sources) == []


def test_no_import_cycles(app_sources: Sources) -> None:
    assert import_cycle(app_sources) == []


def test_every_module_has_a_docstring(app_sources: Sources) -> None:
    assert without_docstring(app_sources) == []


def test_no_source_file_is_too_long(python_sources: Sources) -> None:
    assert too_long(python_sources | read(".js", ".css")) == []


def test_the_app_needs_only_its_requirements(app_sources: Sources) -> None:
    runtime = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    development = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    training = {path: text for path, text in app_sources.items() if path.startswith("model/training/")}
    rest = {path: text for path, text in app_sources.items() if path not in training}
    assert undeclared_packages(rest, runtime) == []
    assert undeclared_packages(training | {"model/__init__.py": ""}, runtime + "\n" + development) == []


def test_nothing_is_loaded_from_another_host() -> None:
    # Tests are never served, and some hold hostile markup on purpose.
    texts = read(".py", ".js", ".css", ".html", ".svg", ".md", ".toml", ".json")
    assert outside_sources({path: text for path, text in texts.items() if not path.startswith("tests/")}) == []


# --- the checks can fail ---


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"model/a.py": "import plotly.graph_objects as go"}, "model/a.py:1 imports plotly.graph_objects"),
        ({"model/a.py": "def f():\n    from gradio import Blocks"}, "model/a.py:2 imports gradio.Blocks"),
        ({"model/a.py": "from viz import figures", "viz/figures/__init__.py": ""}, "model/a.py:1 imports viz.figures"),
        ({"model/a/b.py": "import importlib\nimportlib.import_module('app')"}, "model/a/b.py:2 imports app"),
        ({"viz/figures/a.py": "from model.config import X"}, "viz/figures/a.py:1 imports model.config.X"),
        ({"viz/figures/a.py": "from ..panels import b"}, "viz/figures/a.py:1 imports viz.panels.b"),
        ({"viz/figures/__init__.py": "from .. import components"}, "viz/figures/__init__.py:1 imports viz.components"),
        ({"viz/figures/a.py": "import viz.runs", "viz/runs.py": "import model"}, "viz/runs.py:1 imports model, reached from viz.figures.a"),
        ({"viz/panels/a.py": "from torch import nn"}, "viz/panels/a.py:1 imports torch.nn"),
        ({"viz/runs.py": "import app"}, "viz/runs.py:1 imports app"),
    ],
)
def test_a_forbidden_import_is_found(sources: Sources, message: str) -> None:
    assert any(found.startswith(message) for found in rule_violations(sources))


def test_allowed_imports_pass() -> None:
    sources = {
        "app.py": "import gradio\nfrom viz.panels import translate\nfrom model import load_translator",
        "model/__init__.py": "def __getattr__(name):\n    from model.a import load_translator",
        "model/a.py": "import torch\nimport modelling",
        "viz/panels/translate.py": "from model.a import X\nfrom ..figures import heatmap\nimport gradio",
        "viz/figures/heatmap.py": "import plotly.graph_objects as go\nfrom viz.text import en",
        "viz/text/__init__.py": "",
    }
    assert rule_violations(sources) == []
    assert import_cycle(sources) == []


@pytest.mark.parametrize(
    ("sources", "cycle"),
    [
        ({"model/a.py": "import model.b", "model/b.py": "from model.a import x"}, ["model.a", "model.b", "model.a"]),
        ({"m/__init__.py": "from .a import x", "m/a.py": "from m import y"}, ["m", "m.a", "m"]),
        ({"m/a.py": "from . import b", "m/b.py": "def f():\n    import m.c", "m/c.py": "from .a import f"}, ["m.a", "m.b", "m.c", "m.a"]),
        ({"m/a.py": "import m.b", "m/b.py": "if TYPE_CHECKING:\n    from m.a import x"}, []),
        ({"m/a.py": "import m.b, m.c", "m/b.py": "import m.d", "m/c.py": "import m.d", "m/d.py": "import json"}, []),
    ],
)
def test_a_cycle_is_found(sources: Sources, cycle: list[str]) -> None:
    assert import_cycle(sources) == cycle


def test_a_missing_docstring_and_a_long_file_are_found() -> None:
    sources = {"a.py": "import os", "b.py": '"""Says."""\nimport os', "c/__init__.py": "\n", "d.py": "# says"}
    assert without_docstring(sources) == ["a.py", "d.py"]
    assert too_long({"a.py": "x\n" * 401, "b.py": "x\n" * 400}) == ["a.py: 401 lines"]


def test_an_undeclared_package_is_found() -> None:
    sources = {"model/a.py": "import json, torch.nn\nfrom model import b\nfrom . import c\nimport pandas, huggingface_hub"}
    assert undeclared_packages(sources, "# pandas\ntorch>=2.8\nhuggingface-hub>=1,<2\n") == ["model/a.py:4 imports pandas"]


@pytest.mark.parametrize(
    "text",
    [
        '<script defer src="https://host.example/x.js"></script>',
        "<link rel=stylesheet href=//host.example/x.css>",
        'HEAD = "<script src=\\"http://host.example/x.js\\">"',
        "@import 'https://host.example/x.css';",
        "src: url( https://host.example/x.woff2 )",
        'import * as d3 from "https://host.example/d3.js"',
        "const d3 = await import('https://host.example/d3.js')",
        "importScripts('https://host.example/x.js')",
        'new FontFace("Name", "url(https://host.example/x.woff2)")',
        "script.src = `https://host.example/x.js`",
        "tag.setAttribute('src', 'https://host.example/x.js')",
        'theme = Soft(font=gr.themes.GoogleFont("Inter"))',
        "figure.write_html(path, include_plotlyjs='cdn')",
    ],
)
def test_a_source_on_another_host_is_found(text: str) -> None:
    assert len(outside_sources({"viz/x": "first line\n" + text})) == 1
    assert outside_sources({"viz/x": "first line\n" + text})[0].startswith("viz/x:2 ")


@pytest.mark.parametrize(
    "text",
    [
        '<script src="/gradio_api/file=plotly.min.js"></script>',
        "# the paper: https://host.example/paper.pdf",
        '<a href="https://host.example/">',
        "import os  # see https://host.example/",
        "background: url(data:image/png;base64,AAAA)",
        "figure.write_html(path, include_plotlyjs=True)",
        "import x from './x.js' // local",
    ],
)
def test_a_mere_link_is_not(text: str) -> None:
    assert outside_sources({"viz/x": text}) == []
