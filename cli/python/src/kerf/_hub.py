"""Models by the names that they have on the Hugging Face hub, where they are in its local cache, as the
command takes them. The cache is never filled."""

from __future__ import annotations

import os

from kerf._library import Arena, lib, text

# As huggingface_hub looks for its cache, the first that is set before the others.
_PLACES = (
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_HOME", "hub"),
    ("XDG_CACHE_HOME", "huggingface/hub"),
    ("HOME", ".cache/huggingface/hub"),
)


def model_path(given: str | os.PathLike[str]) -> str:
    """The path as it is; for what is no path here, "org/name" and "models--org--name", its folder in
    the cache."""
    path = os.fspath(given)
    if os.path.lexists(path):
        return path
    arena = Arena()
    out = arena.new("char[]", 4096)
    for variable, below in _PLACES:
        cache = os.environ.get(variable)
        where = cache and arena.text(os.path.join(cache, below))
        if where and lib.kerf_hub_folder(where, arena.text(path), out, 4096):
            return text(out)
    return path
