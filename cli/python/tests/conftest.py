"""What the tests share: the small real model, and the command beside which results are held.

KERF names the command; without it the tests that compare with it are skipped. KERF_SOURCE names the
repository where the tests do not lie in it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(os.environ.get("KERF_SOURCE", Path(__file__).parents[3]))
MODEL = ROOT / "tests/data/tiny-llama"
WEIGHT = "model.layers.0.mlp.down_proj.weight"


@pytest.fixture
def model() -> Path:
    return MODEL


@pytest.fixture
def noise() -> Any:
    """Float32 [96, 256], the same in every run."""
    return np.random.default_rng(7).standard_normal((96, 256), dtype=np.float32)


class Command:
    """The command `kerf`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *args: object) -> None:
        subprocess.run([self.path, *map(str, args)], check=True, capture_output=True)

    def json(self, *args: object) -> Any:
        done = subprocess.run(
            [self.path, *map(str, args), "--json"], check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout)


@pytest.fixture
def command() -> Command:
    path = os.environ.get("KERF") or shutil.which("kerf")
    if not path:
        pytest.skip("no command kerf: set KERF to its path")
    return Command(path)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that a search works on for a second and more: float32 [8192, 2048]."""
    from safetensors.numpy import save_file

    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    values = np.random.default_rng(3).standard_normal((8192, 2048), dtype=np.float32)
    save_file({"layers.0.weight": values}, path)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    """Name -> bytes of every file of a folder."""
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
