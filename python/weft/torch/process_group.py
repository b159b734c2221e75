"""Messages of a ring over `torch.distributed`, on host memory by Gloo."""

from __future__ import annotations

import atexit
import collections
import datetime
import itertools
import queue
import threading
import time
import weakref
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["ProcessGroupMessenger"]

_GOODBYE = 0  # a tag that no message has
_FOREVER = datetime.timedelta(days=365)  # a ring says itself when a rank is lost
_LAST_SECONDS = 5.0  # that one who leaves waits for the others to leave


class ProcessGroupMessenger:
    """See `weft.ring.Messenger`. Messages travel in a group of their own, with the ranks of `group`; all of these make it
    together. One thread for each peer sends and one receives, as Gloo's requests are known to be done only to who waits. They
    ask the group itself, which is there as long as somebody holds it: functions of `torch.distributed` would refuse the last
    messages behind `destroy_process_group()`."""

    def __init__(self, group: Any = None) -> None:
        self.group: Any = dist.new_group(dist.get_process_group_ranks(group or dist.group.WORLD), timeout=_FOREVER, backend="gloo")
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        self._numbers = itertools.count(1)
        self._sending: dict[int, tuple[int, int]] = {}
        self._sent: set[int] = set()
        self._waiting: dict[int, tuple[int, int, memoryview]] = {}
        self._order: dict[tuple[int, int], collections.deque[int]] = collections.defaultdict(collections.deque)
        self._arrived: dict[tuple[int, int], collections.deque[torch.Tensor]] = collections.defaultdict(collections.deque)
        self._failed: dict[int, str] = {}
        self._queues: dict[int, queue.SimpleQueue[tuple[int, int, torch.Tensor]]] = {}
        self._threads: list[threading.Thread] = []
        for peer in range(self.ranks):
            if peer != self.rank:
                self._queues[peer] = queue.SimpleQueue()
                for run in (self._send_all, self._receive_all):
                    self._threads.append(threading.Thread(target=run, args=(peer,), name=f"weft ring, rank {peer}", daemon=True))
        for thread in self._threads:
            thread.start()
        _ALIVE.add(self)

    def send(self, peer: int, tag: int, data: memoryview) -> int:
        request = next(self._numbers)
        self._sending[request] = (peer, len(data))
        # The bytes are the caller's again when the message is cancelled, whoever still sends.
        self._queues[peer].put((request, tag, torch.frombuffer(bytearray(data), dtype=torch.uint8)))
        return request

    def receive(self, peer: int, tag: int, data: memoryview) -> int:
        request = next(self._numbers)
        self._waiting[request] = (peer, tag, data)
        self._order[peer, tag].append(request)
        return request

    def test(self, request: int) -> int | None:
        if request in self._sending:
            peer, size = self._sending[request]
            if request not in self._sent:
                return self._none_yet(peer)
            self._sent.remove(request)
            del self._sending[request]
            return size
        peer, tag, data = self._waiting[request]
        order, arrived = self._order[peer, tag], self._arrived[peer, tag]
        if not arrived or order[0] != request:
            return None if arrived else self._none_yet(peer)
        came = arrived.popleft()
        if came.numel() > len(data):
            raise RuntimeError(f"rank {peer} sent {came.numel()} bytes where {len(data)} were expected")
        torch.frombuffer(data, dtype=torch.uint8)[: came.numel()].copy_(came)
        order.popleft()
        del self._waiting[request]
        return came.numel()

    def cancel(self, request: int) -> None:
        self._sending.pop(request, None)
        if request in self._waiting:
            peer, tag, _ = self._waiting.pop(request)
            self._order[peer, tag].remove(request)

    def end(self) -> None:
        """Peers are told that no more comes, and waited for: what is on its way to them could be lost with this process."""
        self._say_goodbye()
        self._wait_for_goodbyes(time.monotonic() + _LAST_SECONDS)

    def _say_goodbye(self) -> None:
        if self in _ALIVE:
            _ALIVE.remove(self)
            for messages in self._queues.values():
                messages.put((0, _GOODBYE, torch.empty(0, dtype=torch.uint8)))

    def _wait_for_goodbyes(self, until: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _none_yet(self, peer: int) -> None:
        if peer in self._failed:
            raise RuntimeError(f"rank {peer} of the process group: {self._failed[peer]}")

    def _send_all(self, peer: int) -> None:
        try:
            while True:
                request, tag, data = self._queues[peer].get()
                self.group.send([torch.tensor([tag, data.numel()])], peer, 0).wait()
                if tag == _GOODBYE:
                    return
                self.group.send([data], peer, 0).wait()
                self._sent.add(request)
        except RuntimeError as error:
            self._failed.setdefault(peer, str(error))

    def _receive_all(self, peer: int) -> None:
        head = torch.zeros(2, dtype=torch.int64)
        try:
            while True:
                self.group.recv([head], peer, 0).wait()
                tag, size = head.tolist()
                if tag == _GOODBYE:
                    return
                data = torch.empty(size, dtype=torch.uint8)
                self.group.recv([data], peer, 0).wait()
                self._arrived[peer, tag].append(data)
        except RuntimeError as error:
            self._failed.setdefault(peer, str(error))


_ALIVE: weakref.WeakSet[ProcessGroupMessenger] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """Of rings that nobody dropped: a thread that comes back from PyTorch when the interpreter is gone aborts the process."""
    left = list(_ALIVE)
    for messenger in left:
        messenger._say_goodbye()
    until = time.monotonic() + _LAST_SECONDS
    for messenger in left:
        messenger._wait_for_goodbyes(until)
