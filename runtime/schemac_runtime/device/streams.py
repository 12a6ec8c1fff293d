"""Order between the host's writes, copies and kernels when several streams and buffers are in play.

Two hazards: a pinned buffer is written again while a copy from it is still in flight, and device memory is written on
one stream while a kernel on another still reads it. `Slots` guards the first, `StreamOrder` the second. On the CPU
neither can happen and both do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from schemac_runtime.errors import DeviceError


class Streams(Protocol):
    """The part of `torch.cuda` that is needed, for one device."""

    def current(self) -> Any:
        """The current stream; None where there are none."""
        ...

    def record(self) -> Any:
        """An event behind all work on the current stream so far."""
        ...

    def capturing(self) -> bool:
        """Whether the current stream's work goes into a CUDA graph instead of being run."""
        ...


class NoStreams:
    """The CPU: whatever was called has been done."""

    def current(self) -> Any:
        """None."""
        return None

    def record(self) -> Any:
        """None."""
        return None

    def capturing(self) -> bool:
        """False."""
        return False


class CudaStreams:
    """CUDA or HIP, by torch.

    Args:
        device: a torch device.
    """

    def __init__(self, device: Any) -> None:
        self.device = device

    def current(self) -> Any:
        """Torch's current stream of the device."""
        import torch

        return torch.cuda.current_stream(self.device)

    def record(self) -> Any:
        """A recorded event."""
        return self.current().record_event()

    def capturing(self) -> bool:
        """What torch says."""
        import torch

        return bool(torch.cuda.is_current_stream_capturing())


def streams_of(device: Any) -> Streams:
    """The streams of a torch device."""
    return CudaStreams(device) if device.type == "cuda" else NoStreams()


class StreamOrder:
    """Device memory that is used on one stream at a time: each use waits for the last one if that was elsewhere."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._last: Any = None
        self._event: Any = None

    def before(self) -> None:
        """Call before work is enqueued that reads or writes the memory."""
        stream = self._streams.current()
        if self._event is not None and stream != self._last and not self._streams.capturing():
            stream.wait_event(self._event)

    def after(self) -> None:
        """Call once that work is enqueued."""
        if self._streams.capturing():
            return  # replays are ordered by the stream that they are launched on
        self._last = self._streams.current()
        self._event = self._streams.record()


    @contextmanager
    def using(self) -> Iterator[None]:
        """Around work that uses the memory, such as the replay of a CUDA graph that holds it."""
        self.before()
        yield
        self.after()


class Slots:
    """Host buffers used in turn: one is not written before the copy from it has been done.

    Args:
        buffers: of equal size.
        streams: of the device that is copied to.
    """

    def __init__(self, buffers: list[Any], streams: Streams) -> None:
        self._buffers, self._streams = buffers, streams
        self._events: list[Any] = [None] * len(buffers)
        self._next = 0

    def take(self) -> Any:
        """The next buffer, free to be written.

        Raises:
            DeviceError: a CUDA graph is being captured; a copy from the host would be frozen into it.
        """
        if self._streams.capturing():
            raise DeviceError("nothing is uploaded while a CUDA graph is captured", hint="upload before the capture")
        event = self._events[self._next]
        if event is not None:
            event.synchronize()
            self._events[self._next] = None
        return self._buffers[self._next]

    def sent(self) -> None:
        """The copy from the buffer that was taken last is enqueued."""
        self._events[self._next] = self._streams.record()
        self._next = (self._next + 1) % len(self._buffers)
