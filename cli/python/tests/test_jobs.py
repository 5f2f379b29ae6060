"""Progress, and how Ctrl-C ends a call: the exception comes through, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerf
from kerf import _jobs


def left_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_progress_is_told_in_this_thread(model: Path, tmp_path: Path) -> None:
    events: list[kerf.Event] = []
    threads = set()

    def progress(e: kerf.Event) -> None:
        events.append(e)
        threads.add(threading.get_ident())

    kerf.quantize(model, tmp_path / "out", "nvfp4", progress=progress)
    assert threads == {threading.get_ident()}
    assert [e.what for e in events if e.kind == "phase"] == ["writing", "comparing what was written"]
    items = {e.what: e.action for e in events if e.kind == "item"}
    assert items["model.layers.0.mlp.down_proj.weight"] == "nvfp4:amax"
    last = events[-1]
    assert last.done == last.total > 0


def test_of_progress_the_last_before_another_event_is_told() -> None:
    """A caller that is slow sees each part come to its end."""
    told: list[str] = []
    call = _jobs._Call(lambda _job, _err: 0, lambda e: told.append(e.what))
    for kind, what in (
        ("progress", "a"),
        ("progress", "b"),
        ("item", "c"),
        ("progress", "d"),
        ("phase", "e"),
    ):
        call.events.append(kerf.Event(kind, what, "", 0, 0, 0))
    call.done = True
    call._listen()
    assert told == ["b", "c", "d", "e"]


def test_what_progress_raises_stops_the_call(large: Path, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def progress(e: kerf.Event) -> None:
        if e.kind == "progress":
            raise Enough

    with pytest.raises(Enough):
        kerf.quantize(large, tmp_path / "out.safetensors", "nvfp4:sweep", progress=progress)
    assert left_in(tmp_path) == []


def test_an_interrupt_in_this_process(large: Path, tmp_path: Path) -> None:
    def progress(e: kerf.Event) -> None:
        if e.kind == "progress":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        kerf.quantize(large, tmp_path / "out.safetensors", "nvfp4:sweep", progress=progress)
    assert left_in(tmp_path) == []


def test_an_interrupt_of_an_array() -> None:
    """The timer is of real time and its handler raises in the main thread, as Ctrl-C does."""

    def ring(*_: Any) -> None:
        raise KeyboardInterrupt

    x = np.ones((8192, 4096), np.float32)
    old = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                kerf.encode(x, "nvfp4:sweep")
        assert time.monotonic() - begun < 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


PROGRAM = """
import sys, threading, time, kerf
source, out = sys.argv[1:]
threading.Timer(0.3, lambda: print("begun", flush=True)).start()
try:
    while True:
        kerf.quantize(source, out, "nvfp4:sweep", overwrite=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(3)
"""


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(large: Path, tmp_path: Path, times: int) -> None:
    """Of a process as a terminal does it; a second time while it is ending."""
    out = tmp_path / "out.safetensors"
    command = [sys.executable, "-c", PROGRAM, large, out]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout and child.stdout.readline() == "begun\n"
        for _ in range(times):
            child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        if times == 1:
            assert child.stdout.read() == "interrupted\n"
        child.wait(30)
        took = time.monotonic() - begun
    assert child.returncode in ((3,) if times == 1 else (3, 1, -2, 130))
    assert took < 10
    assert left_in(tmp_path) in ([], [out.name])  # of a round that was complete


def test_several_calls_at_a_time(model: Path, tmp_path: Path) -> None:
    failures = []

    def work(i: int) -> None:
        try:
            kerf.quantize(model, tmp_path / str(i), "nvfp4", threads=1)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    first = (tmp_path / "0/model.safetensors").read_bytes()
    assert all((tmp_path / f"{i}/model.safetensors").read_bytes() == first for i in range(4))


def test_an_empty_listener_gets_every_item(model: Path) -> None:
    """A slow one, too: only steps of progress may be left out."""
    names = []

    def progress(e: kerf.Event) -> None:
        time.sleep(0.001)
        if e.kind == "item":
            names.append(e.what)

    kerf.score(model, ["mxfp4"], progress=progress)
    assert len(names) == 28
