"""Messages of a ring over `torch.distributed`, on host memory by Gloo."""

from __future__ import annotations

import collections
import datetime
import itertools
import queue
import threading
import time
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["ProcessGroupMessenger"]

_GOODBYE = 0  # a tag that no message has
_FOREVER = datetime.timedelta(days=365)  # a ring says itself when a rank is lost
_LAST_SECONDS = 5.0  # that one who leaves waits for the others to leave


class ProcessGroupMessenger:
    """See `weft.ring.Messenger`. Messages travel in a group of their own, with the ranks of `group`; all of these make it
    together. One thread for each peer sends and one receives, as Gloo's requests are known to be done only to who waits."""

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
        for messages in self._queues.values():
            messages.put((0, _GOODBYE, torch.empty(0, dtype=torch.uint8)))
        until = time.monotonic() + _LAST_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _none_yet(self, peer: int) -> None:
        if peer in self._failed:
            raise RuntimeError(f"rank {peer} of the process group: {self._failed[peer]}")

    def _peer(self, rank: int) -> int:
        return dist.get_global_rank(self.group, rank)

    def _send_all(self, peer: int) -> None:
        try:
            while True:
                request, tag, data = self._queues[peer].get()
                dist.send(torch.tensor([tag, data.numel()]), self._peer(peer), self.group)
                if tag == _GOODBYE:
                    return
                dist.send(data, self._peer(peer), self.group)
                self._sent.add(request)
        except RuntimeError as error:
            self._failed.setdefault(peer, str(error))

    def _receive_all(self, peer: int) -> None:
        head = torch.zeros(2, dtype=torch.int64)
        try:
            while True:
                dist.recv(head, self._peer(peer), self.group)
                tag, size = head.tolist()
                if tag == _GOODBYE:
                    return
                data = torch.empty(size, dtype=torch.uint8)
                dist.recv(data, self._peer(peer), self.group)
                self._arrived[peer, tag].append(data)
        except RuntimeError as error:
            self._failed.setdefault(peer, str(error))
