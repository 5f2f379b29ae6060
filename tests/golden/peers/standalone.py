"""standalone.py - one file of an installed package, without the imports that it does not need here.

Some packages cannot be imported as a whole on a machine without a GPU, or against today's versions
of others, though the one file that holds the arithmetic needs PyTorch alone."""
import importlib.metadata
import importlib.util
import sys
from unittest import mock


def load(distribution, path, absent=()):
    """The module of the file that ends in `path`; `absent` modules are replaced by mocks."""
    files = importlib.metadata.files(distribution)
    file = next(f for f in files if str(f).endswith(path)).locate()
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in absent}):
        spec = importlib.util.spec_from_file_location(path.replace("/", "_")[:-3], file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module
