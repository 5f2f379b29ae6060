"""The build backend: scikit-build-core's, but without source distributions. The sources of the library
are two folders above, where an archive of this folder has none: nobody could build what it held."""

from __future__ import annotations

from typing import Any

from scikit_build_core.build import *  # noqa: F403


class UnsupportedOperation(Exception):
    """As PEP 517 calls what a backend does not do."""


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return []


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    raise UnsupportedOperation(
        "kerf has no source distribution of its own: the whole repository is one. "
        "pip wheel --no-deps ./cli/python makes a wheel"
    )
