"""Long calls: what is told of their progress, and how Ctrl-C ends them.

The library works in a thread of its own; the thread that called waits in Python, where signals are
handled and where `progress` is called. Whatever is raised there, KeyboardInterrupt or the caller's
own exception, sets a flag that the library looks at for every panel (a few MiB), and is raised again
when the call has ended and removed what it had begun. Nothing of the library waits for the GIL to
ask whether it shall go on.
"""

from __future__ import annotations

import _thread
import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

from kerf._library import enum, ffi, lib, raise_error, text
from kerf._records import Record

_KINDS = enum("kerf_event_kind", "KERF_EVENT_")


@dataclasses.dataclass(frozen=True)
class Event(Record):
    """What has happened in a long call.

    kind:     "phase" (a part of known size begins), "item" (work on one tensor begins), "progress",
              "resume" (what an earlier run left was looked at)
    what:     name of the phase or of the tensor, path of the output; "" for progress
    action:   item: what becomes of it ("nvfp4:4/6", "keep"); resume: why all is done anew
    done:     bytes of work of this phase that are done
    total:    bytes of this phase; 0: not known
    skipped:  the part of done that an earlier run did
    """

    kind: str
    what: str
    action: str
    done: int
    total: int
    skipped: int


Progress = Callable[[Event], object]


class _Call:
    """One call of the library in its own thread."""

    def __init__(self, call: Callable[[Any, Any], int], progress: Progress | None) -> None:
        self.call = call
        self.progress = progress
        self.flag = ffi.new("int *")  # what kerf_cancel_flag looks at
        self.err = ffi.new("kerf_error *")
        self.job = ffi.new("kerf_job *")
        self.job.cancel = ffi.cast("int (*)(void *)", _address("kerf_cancel_flag"))
        self.job.ctx = self.flag
        self.status = 0
        self.failure: BaseException | None = None
        self.events: deque[Event] = deque()
        # All that the two threads share changes by single operations that no signal can cut in two:
        # a deque, these flags, and locks that nobody holds while he does something else.
        self.gate = _closed_lock()  # the work may begin
        self.wake = _closed_lock()  # there are events, or the end
        self.allowed = False
        self.done = False
        if progress:
            self.tell = ffi.callback("void (*)(void *, const kerf_event *)", self._tell)
            self.job.tell = self.tell

    # --- in the library's thread ---

    def _tell(self, _ctx: Any, e: Any) -> None:
        self.events.append(
            Event(_KINDS[e.kind], text(e.what), text(e.action), e.done, e.total, e.skipped)
        )
        _open(self.wake)

    def _work(self) -> None:
        self.gate.acquire()
        if not self.allowed:
            return
        try:
            self.status = self.call(self.job, self.err)
        except BaseException as e:  # raised again in the thread that waits
            self.failure = e
        self.done = True
        _open(self.wake)

    # --- in the caller's thread ---

    def _listen(self) -> None:
        """Until the end. Of several steps of progress that came meanwhile the last one is told."""
        while not self.done or self.events:
            if not self.events:
                self.wake.acquire()
                continue
            event = self.events.popleft()
            late = event.kind == "progress" and self.events and self.events[0].kind == "progress"
            if self.progress and not late:
                self.progress(event)

    def _wait_for_end(self) -> None:
        """Until the library has let go of all memory, whatever is raised meanwhile: a second Ctrl-C
        cannot make it faster."""
        while True:
            try:
                while not self.done:
                    self.wake.acquire()
                return
            except BaseException:
                continue

    def run(self) -> None:
        try:
            # The thread begins its work only when this one is sure to wait for it.
            _thread.start_new_thread(self._work, ())
            self.allowed = True
            _open(self.gate)
            self._listen()
        except BaseException:
            self.flag[0] = 1
            _open(self.gate)
            if self.allowed:
                self._wait_for_end()
            raise
        if self.failure:
            raise self.failure
        if self.status != lib.KERF_OK:
            raise_error(self.status, self.err)


def _closed_lock() -> Any:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


def _open(lock: Any) -> None:
    with contextlib.suppress(RuntimeError):  # it is open
        lock.release()


def _address(name: str) -> Any:
    return ffi.addressof(lib, name)


def run(call: Callable[[Any, Any], int], progress: Progress | None = None) -> None:
    """Runs call(job, err), which returns a status, and raises what it failed with.

    progress is called in this thread with each Event; what it raises cancels the call and is raised
    here, as KeyboardInterrupt is.
    """
    _Call(call, progress).run()
