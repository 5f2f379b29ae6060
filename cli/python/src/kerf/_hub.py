"""Models by the names that they have on the Hugging Face hub, where they are in its local cache, as the
command takes them. The cache is never filled."""

from __future__ import annotations

import os
import re

# As huggingface_hub looks for its cache, the first that is set before the others.
_PLACES = (
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_HOME", "hub"),
    ("XDG_CACHE_HOME", "huggingface/hub"),
    ("HOME", ".cache/huggingface/hub"),
)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)?")


def model_path(given: str | os.PathLike[str]) -> str:
    """The path as it is; for what is no path here, "org/name" and "models--org--name", its folder in
    the cache."""
    path = os.fspath(given)
    if os.path.lexists(path) or not _NAME.fullmatch(path):
        return path
    if "/" in path:
        path = "models--" + path.replace("/", "--")
    elif not path.startswith("models--"):
        return path
    for variable, below in _PLACES:
        cache = os.environ.get(variable)
        found = cache and os.path.join(cache, below, path)
        if found and os.path.isdir(found):
            return found
    return os.fspath(given)
