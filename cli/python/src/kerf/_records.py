"""Results: frozen dataclasses that are filled from the structs of C by the names of their fields,
and that a notebook shows as tables."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from kerf._library import ffi, text

T = TypeVar("T")


def _value(c: Any) -> Any:
    """Numbers as they are; char * and char[] as str."""
    if not isinstance(c, ffi.CData):
        return c
    return text(c)


def read(cls: type[T], c: Any, **more: Any) -> T:
    """A dataclass from a struct. Fields that the struct lacks, or has in another form, are in more."""
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return cls(**{n: more[n] if n in more else _value(getattr(c, n)) for n in names})


# --- in a notebook ---------------------------------------------------------------------------


def cell(value: Any) -> str:
    """How a figure is shown: four digits, counts with their thousands apart."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:#.4g}".rstrip(".")  # with its zeros: a column of them is read as one
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


_ROOM = "padding:2px 8px"  # notebooks without a style of their own leave none between columns


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """An HTML table; columns with numbers are aligned to the right, everything is escaped."""
    rows = [tuple(row) for row in rows]
    right = {i for row in rows for i, value in enumerate(row) if _is_number(value)}
    out = ["<table>"]
    if caption:
        line = "white-space:nowrap;text-align:left"
        out.append(f'<caption style="{line}">{html.escape(caption)}</caption>')
    out.append("<tr>" + "".join(f'<th style="{_ROOM}">{html.escape(h)}</th>' for h in head) + "</tr>")
    for row in rows:
        cells = []
        for i, value in enumerate(row):
            style = f"text-align:{'right' if i in right else 'left'};{_ROOM}"
            cells.append(f'<td style="{style}">{html.escape(cell(value))}</td>')
        out.append("<tr>" + "".join(cells) + "</tr>")
    out.append("</table>")
    return "".join(out)


class Record:
    """Base of the results: a notebook shows a table of the fields."""

    def _repr_html_(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown = [(f.name, getattr(self, f.name)) for f in fields if f.repr]
        return table([type(self).__name__, ""], shown)


@dataclasses.dataclass(frozen=True)
class Verdict(Record):
    """Base of what holds models against limits: true where they are kept.

    passed:    nothing is over a limit and there is no problem
    document:  what the command prints with --json, as text
    text:      what it prints with --wide: str() of the result
    junit, markdown:  the result for programs that run kerf, as texts
    """

    passed: bool
    document: str = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False)
    junit: str = dataclasses.field(repr=False)
    markdown: str = dataclasses.field(repr=False)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self.text

    def json(self) -> Any:
        """The command's document of ``--json``: schema kerf.verify/1 or kerf.eval/1."""
        return json.loads(self.document)
