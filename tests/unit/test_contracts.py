"""Who may import whom: the contracts hold, and they would notice if they did not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"

# A module, an import that it must not have, and the contract that says so.
VIOLATIONS = [
    ("records.py", "import app.settings", "Layers"),
    ("settings.py", "import app.resources", "Layers"),
    ("engine/stats.py", "import app.models.pair", "Layers"),
    ("stray.py", "import app.errors", "Layers"),
    ("workers/engine.py", "import app.ui.theme", "Only the composition root knows the window"),
    ("models/pair.py", "from PySide6.QtCore import QObject", "Qt only in application, ui and workers"),
    ("engine/stats.py", "from huggingface_hub import hf_hub_download", "The network only in hub"),
    ("ui/theme.py", "import torch", "torch and transformers only in engine, models and comparison"),
    (
        "workers/engine.py",
        "import transformers",
        "torch and transformers only in engine, models and comparison",
    ),
]


def python(code: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "app", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_contracts_hold() -> None:
    done = python(LINT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("module", "line", "contract"), VIOLATIONS)
def test_contracts_notice_a_wrong_import(copy: Path, module: str, line: str, contract: str) -> None:
    file = copy / "app" / module
    before = file.read_text(encoding="utf-8") if file.exists() else None
    file.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        done = python(LINT, copy)
    finally:
        file.unlink() if before is None else file.write_text(before, encoding="utf-8")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout


def test_the_window_needs_no_torch() -> None:
    """Importing torch takes seconds: the window is on screen before."""
    code = (
        "import sys, app.application; print(*sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_packaging_folder_does_not_hide_the_packaging_library() -> None:
    assert not (ROOT / "packaging" / "__init__.py").exists()
    done = python(
        "import packaging.version; print(packaging.version.Version('1.10') > packaging.version.Version('1.9'))"
    )
    assert done.stdout.strip() == "True", done.stderr
