"""A bounded set of threads that make calls; they know no database."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue

from cronjob.lib import http, metrics, processor
from cronjob.lib.failpoints import failpoint
from runs import calls
from runs.calls import Call, Outcome
from runs.models import TaskRun

logger = logging.getLogger(__name__)

BUFFER_BYTES = 64 * 2**20  # of answers that are not settled yet; above it nothing is claimed

BATCH_BYTES = 8 * 2**20  # of answers that are settled together

# Threads are for waiting: those that need not wait only get in each other's way. So there are few
# as long as the processor is what calls wait for, and as many as there are slots where targets take
# their time.
FEW = 4
WIDEN_SECONDS = 0.04
BUSY = 0.25  # of a processor; with so much more, as long as others have nothing to do,
MOST = 0.75  # and beyond that not at all: one of us has no more than one processor
PAYS = 1.5  # so much more than before, with four times the threads, or more would be in the way
IDLE_SECONDS = 10.0  # after which a thread that is one too many ends

Key = tuple[int, int]  # a run and its fence: one attempt


@dataclass(eq=False)
class Held:
    """An attempt that this process has: waiting for a thread, being called, or answered."""

    run: TaskRun
    call: Call
    line: http.Line = field(default_factory=http.Line)
    due: float = 0.0  # by the monotonic clock
    started: bool = False
    size: int = 0  # of its answer, once it is there


class Executor:
    def __init__(self, *, slots: int, client: http.Client, wake: Callable[[], None]) -> None:
        self.slots, self.client, self.wake = slots, client, wake
        self.held: dict[Key, Held] = {}
        self.answers: deque[tuple[Held, Outcome]] = deque()
        self.buffered = 0
        self.queue: SimpleQueue[Held | None] = SimpleQueue()
        self.threads: set[threading.Thread] = set()
        self.lock = threading.Lock()
        self.ending = False
        self.timing: threading.Thread | None = None
        self.waiting: processor.Times | None = None  # since when calls wait for a thread
        self.called = self.called_then = 0  # in all, and of these by then
        self.brought = 0.0  # calls a second, before threads were added
        self.early: list[tuple[float, int, Held]] = []  # a heap of what is not due yet
        self.soon = threading.Condition()
        self.numbers = count()

    @property
    def free(self) -> int:
        if self.buffered > BUFFER_BYTES:
            return 0
        return self.slots - len(self.held)

    def submit(self, run: TaskRun, call: Call, *, wait: float = 0.0) -> None:
        """It is made as soon as a thread has time for it, but not before so many seconds."""
        due = time.monotonic() + max(0.0, wait)
        self.held[call.run_id, call.fence] = held = Held(run, call, due=due)
        if len(self.threads) < min(FEW, len(self.held)):
            self.grow(1)
        if wait <= 0:
            self.queue.put(held)
            return
        with self.soon:
            if not self.timing:
                self.timing = threading.Thread(target=self.let_go, name="early", daemon=True)
                self.timing.start()
            heappush(self.early, (due, next(self.numbers), held))
            self.soon.notify()

    def let_go(self) -> None:
        """Let go of what is early when it is due: no thread that calls waits for that."""
        with self.soon:
            while not self.ending:
                wait = self.early[0][0] - time.monotonic() if self.early else None
                if wait is None or wait > 0:
                    self.soon.wait(wait)
                else:
                    self.queue.put(heappop(self.early)[-1])

    def widen(self) -> None:
        """More threads, if calls wait for one although we hardly compute; to be asked often."""
        if self.queue.empty():
            self.waiting, self.brought = None, 0.0
        elif self.waiting is None:
            self.waiting, self.called_then = processor.times(), self.called
        elif time.monotonic() - self.waiting.at >= WIDEN_SECONDS:
            before, self.waiting = self.waiting, processor.times()
            done, self.called_then = self.called - self.called_then, self.called
            passed = self.waiting.at - before.at
            busy = (self.waiting.ours - before.ours) / passed
            idle = (self.waiting.idle - before.idle) / passed
            if done / passed < self.brought / 2:
                self.brought = 0.0  # now it is calls that take longer
            pays = done < len(self.threads) or done / passed >= PAYS * self.brought
            if pays and (busy < BUSY or (busy < MOST and idle > BUSY)):
                self.brought = done / passed
                self.grow(3 * len(self.threads))

    def grow(self, number: int) -> None:
        with self.lock:
            for _ in range(min(number, self.slots - len(self.threads))):
                thread = threading.Thread(target=self.work, name="call", daemon=True)
                self.threads.add(thread)
                thread.start()

    def work(self) -> None:
        while held := self.next():
            with self.lock:
                wanted = held.started = not held.line.is_cut  # else taken back, or canceled
            if wanted:
                self.call(held)

    def next(self) -> Held | None:
        while True:
            try:
                return self.queue.get(timeout=IDLE_SECONDS)
            except Empty:
                with self.lock:
                    if len(self.threads) > FEW:
                        self.threads.discard(threading.current_thread())
                        return None

    def call(self, held: Held) -> None:
        request = held.call.request
        metrics.observe("cronjob_executor_wait_seconds", time.monotonic() - held.due)
        try:
            failpoint("call.before")
            reply = self.client.send(request, held.line) if request else None
            failpoint("call.sent")
            outcome = calls.outcome(held.call, reply)
        except Exception as error:
            logger.exception("a call failed in an unforeseen way")
            outcome = calls.broken(held.call, error)
        held.size = outcome.size
        with self.lock:
            self.buffered += held.size
            self.called += 1
        self.answers.append((held, outcome))
        self.wake()

    def finished(self, most: int) -> list[tuple[Held, Outcome]]:
        """The answers that came in, to be settled and then `release`d."""
        found: list[tuple[Held, Outcome]] = []
        size = 0
        while self.answers and len(found) < most and size < BATCH_BYTES:
            found.append(self.answers.popleft())
            size += found[-1][0].size
        return found

    def give_back(self, answers: Iterable[tuple[Held, Outcome]]) -> None:
        """They could not be settled; another time."""
        self.answers.extendleft(reversed(list(answers)))

    def release(self, answers: Iterable[tuple[Held, Outcome]]) -> None:
        for held, _ in answers:
            with self.lock:
                self.buffered -= held.size
            self.held.pop((held.call.run_id, held.call.fence), None)

    def cut(self, keys: Iterable[Key]) -> None:
        """Let go of attempts that are no longer wanted; what still comes of them is nobody's."""
        for key in keys:
            if held := self.held.get(key):
                held.line.cut()
                if not held.started:
                    del self.held[key]

    def unstarted(self) -> list[Held]:
        """Take back what no thread has begun."""
        with self.lock:
            found = [held for held in self.held.values() if not held.started]
            for held in found:
                held.line.cut()
                del self.held[held.call.run_id, held.call.fence]
        return found

    def end(self, *, patience: float) -> None:
        with self.soon:
            self.ending = True
            self.soon.notify()
        with self.lock:
            threads = list(self.threads)
        for _ in threads:
            self.queue.put(None)
        until = time.monotonic() + patience
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
