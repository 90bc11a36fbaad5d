"""What a Hugging Face Space reads of this repository: the front matter of the README, the requirements, its files; and the image."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gradio
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from viz import page

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file", "short_description", "pinned"}
MORE_KEYS = {"tags", "license", "models", "datasets", "thumbnail", "suggested_hardware", "startup_duration_timeout", "fullWidth", "header"}
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
PYTHONS = ("3.10", "3.11", "3.12")
ZERO_GPU_TORCH = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")  # that a ZeroGPU Space offers
PREINSTALLED = ("gradio", "huggingface_hub")  # a Space has them before it reads our requirements


@pytest.fixture(scope="module")
def front() -> dict[str, object]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    return yaml.safe_load(text.split("---\n")[1])


@pytest.fixture(scope="module")
def requirements() -> dict[str, Requirement]:
    lines = (line.strip() for line in (ROOT / "requirements.txt").read_text().splitlines())
    return {found.name: found for found in (Requirement(line) for line in lines if line and not line.startswith("#"))}


def test_the_front_matter_is_what_a_space_takes(front: dict[str, object]) -> None:
    assert set(front) >= KEYS and set(front) <= KEYS | MORE_KEYS
    assert front["sdk"] == "gradio" and (ROOT / str(front["app_file"])).is_file()
    assert len(str(front["short_description"])) <= 60
    assert {front["colorFrom"], front["colorTo"]} <= COLOURS
    assert isinstance(front["python_version"], str) and front["python_version"] in ("3.10", "3.12")  # 3.11 is none of ZeroGPU's
    assert isinstance(front["sdk_version"], str)  # a number would lose its zeros


def test_the_spaces_gradio_is_ours(front: dict[str, object], requirements: dict[str, Requirement]) -> None:
    version = str(front["sdk_version"])
    assert requirements["gradio"].specifier.contains(version)
    pinned = re.search(r"^gradio==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None and pinned[1] == version == gradio.__version__


def test_a_space_can_satisfy_the_requirements(requirements: dict[str, Requirement]) -> None:
    for name in ZERO_GPU_TORCH:
        assert requirements["torch"].specifier.contains(name), name
    for name, requirement in requirements.items():
        assert not requirement.url and not any(each.operator == "==" for each in requirement.specifier), name
        if name in PREINSTALLED:  # a range with an open floor of the same major: no pin that the Space's own version breaks
            assert any(each.operator == "<" and Version(each.version).minor == 0 for each in requirement.specifier), name


@pytest.mark.parametrize("python", PYTHONS)
def test_the_constraints_name_one_version_for_every_python(python: str, requirements: dict[str, Requirement]) -> None:
    lines = (line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    found: dict[str, str] = {}
    for pin in (Requirement(line) for line in lines if line):
        if pin.marker is None or pin.marker.evaluate({"python_version": python, "python_full_version": f"{python}.0"}):
            assert pin.name not in found, pin
            found[pin.name.lower().replace("_", "-")] = str(pin.specifier).removeprefix("==")
    for name, requirement in requirements.items():
        assert requirement.specifier.contains(found[name.replace("_", "-")]), name


def test_every_file_fits_a_spaces_git() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [ROOT / name for name in listed.split("\0") if name]
    assert [file.name for file in files if file.is_file() and file.stat().st_size > 10 * 2**20] == []


def test_a_space_is_served_to_everybody_and_others_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADIO_SERVER_NAME", raising=False)
    monkeypatch.setenv("SPACE_ID", "somebody/attention-atlas")
    monkeypatch.setenv("GRADIO_SSR_MODE", "True")  # which Spaces set
    options = page.launch_options()
    assert (options["server_name"], options["ssr_mode"]) == ("0.0.0.0", False)
    monkeypatch.delenv("SPACE_ID")
    assert page.launch_options()["server_name"] == "127.0.0.1"


# --- the image ---


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def test_the_image_holds_what_the_app_imports_and_nothing_else(dockerfile: str) -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == {"requirements.txt", "constraints.txt", "app.py", "README.md", "model", "viz"}
    ignored = (ROOT / ".dockerignore").read_text()
    assert all(f"!{name}\n" in ignored for name in names)
    assert all((ROOT / name).exists() for name in names)


def test_the_image_runs_without_rights_and_says_that_it_lives(dockerfile: str) -> None:
    lines = dockerfile.splitlines()
    assert lines.index("USER 1000") < next(i for i, line in enumerate(lines) if line.startswith("CMD "))
    probe = re.search(r'CMD \["python", "-c", "(.+)"\]$', dockerfile, re.MULTILINE)
    assert probe is not None
    compile(probe[1], "probe", "exec")
    code = subprocess.run([sys.executable, "-c", probe[1]], env={"PORT": "9"}, capture_output=True).returncode
    assert code == 1  # nobody answers there
