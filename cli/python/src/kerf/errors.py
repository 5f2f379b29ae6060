"""What fails, as exceptions: one class for each status of the library.

    try:
        kerf.quantize("model", "out", "nvfp4")
    except kerf.ExistsError as e:
        print(e, e.status, e.offset)

Each class is also the built-in exception that a Python program expects for such a failure, so
``except ValueError`` and ``except OSError`` work as well.
"""

from __future__ import annotations

from typing import Any


class KerfError(Exception):
    """A call of the library failed; ``str(e)`` is one line that says what, where and what helps.

    status:  name of the status, "KERF_E_DATA"
    native:  errno or cudaError_t, or 0
    offset:  element or byte of the input that is at fault, or None
    """

    status = ""

    def __init__(self, text: str, native: int = 0, offset: int | None = None) -> None:
        super().__init__(text)
        self.native = native
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what another process is sent, has native, offset and errno too."""
        return type(self), (self.args[0], self.native, self.offset), self.__dict__


class ArgumentError(KerfError, ValueError):
    """KERF_E_ARG: arguments that contradict each other, an unknown name, a pattern without match."""

    status = "KERF_E_ARG"


class NoMemoryError(KerfError, MemoryError):
    """KERF_E_NOMEM: memory of the host or of a GPU is exhausted."""

    status = "KERF_E_NOMEM"


class DataError(KerfError, ValueError):
    """KERF_E_DATA: the input is not what it claims to be, or holds NaN or Inf."""

    status = "KERF_E_DATA"


class LimitError(KerfError, ValueError):
    """KERF_E_LIMIT: above a documented bound; of advise: no choice stays under the budget."""

    status = "KERF_E_LIMIT"


class RangeError(KerfError, OverflowError):
    """KERF_E_RANGE: sizes that overflow."""

    status = "KERF_E_RANGE"


class BufferTooSmallError(KerfError, ValueError):
    """KERF_E_BUFFER: an array is too small for what is read from it or written to it."""

    status = "KERF_E_BUFFER"


class UnsupportedError(KerfError, NotImplementedError):
    """KERF_E_NOSUP: this combination does not exist; the text says what would work."""

    status = "KERF_E_NOSUP"


class DeviceError(KerfError, RuntimeError):
    """KERF_E_CUDA: a GPU failed; ``native`` is the cudaError_t."""

    status = "KERF_E_CUDA"


class FileError(KerfError, OSError):
    """KERF_E_IO: a file cannot be read or written; ``native`` and ``errno`` are the errno."""

    status = "KERF_E_IO"

    def __init__(self, text: str, native: int = 0, offset: int | None = None) -> None:
        super().__init__(text, native, offset)
        self.errno = native or None


class ExistsError(FileError, FileExistsError):
    """KERF_E_EXISTS: the output is there already; ``overwrite=True`` replaces it."""

    status = "KERF_E_EXISTS"


class CanceledError(KerfError):
    """KERF_E_CANCELED: the call was stopped and left nothing behind."""

    status = "KERF_E_CANCELED"


BY_STATUS: dict[str, type[KerfError]] = {
    c.status: c
    for c in (
        ArgumentError,
        NoMemoryError,
        DataError,
        LimitError,
        RangeError,
        BufferTooSmallError,
        UnsupportedError,
        DeviceError,
        FileError,
        ExistsError,
        CanceledError,
    )
}
