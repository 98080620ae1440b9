"""Makes calls, so many at once; one thread waits for all of them, and none knows a database."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import exp, inf
from queue import Empty, SimpleQueue

from cronjob.lib import http, metrics
from cronjob.lib.failpoints import failpoint
from cronjob.lib.watch import Watch
from cronjob.lib.wire import Steps
from runs import calls
from runs.calls import Call, Outcome
from runs.models import TaskRun

logger = logging.getLogger(__name__)

BUFFER_BYTES = 64 * 2**20  # of answers that are not settled yet; above it nothing is claimed

BATCH_BYTES = 8 * 2**20  # of answers that are settled together

# Threads are for what cannot be watched: a name that is looked up, a new connection, the rest of a
# long answer. Those that need not wait only get in each other's way.
FEW = 4
WIDEN_SECONDS = 0.01  # for so long something may wait for one
STALE_SECONDS = 5.0  # after which it is no longer sure that nobody else makes a call
HUNG_SECONDS = 5.0  # no step of a call takes so long
PAUSE_SECONDS = 0.1  # after what should not be possible
IDLE_SECONDS = 10.0  # after which a thread that is one too many ends

SOON_SECONDS = 0.08  # from a look for what is ready to its calls, and to the next look
LATELY_SECONDS = 0.25  # for so long it counts how fast calls have been ending

Key = tuple[int, int]  # a run and its fence: one attempt


@dataclass(eq=False, slots=True)
class Held:
    """An attempt that this process has: waiting for its moment, being called, or answered."""

    run: TaskRun
    call: Call
    line: http.Line = field(default_factory=http.Line)
    steps: Steps[http.Reply] | None = None
    due: float = 0.0  # by the monotonic clock
    started: bool = False
    size: int = 0  # of its answer, once it is there


class Pace:
    """How many a second there have been of late."""

    def __init__(self) -> None:
        self.rate, self.told_at = 0.0, time.monotonic()

    def of_late(self) -> float:
        return self.rate * exp((self.told_at - time.monotonic()) / LATELY_SECONDS)

    def add(self) -> None:
        self.rate, self.told_at = self.of_late() + 1 / LATELY_SECONDS, time.monotonic()


class Executor:
    def __init__(self, *, slots: int, client: http.Client, wake: Callable[[], None]) -> None:
        self.slots, self.client, self.wake = slots, client, wake
        self.held: dict[Key, Held] = {}
        self.answers: deque[tuple[Held, Outcome]] = deque()
        self.answered = self.buffered = 0  # and not settled yet: attempts, and bytes
        self.pace = Pace()
        self.early: list[tuple[float, int, Held]] = []  # a heap, by when they are due
        self.numbers = count()
        self.watch: Watch[Held] = Watch()
        self.watching: threading.Thread | None = None
        self.sleeping = threading.Lock()  # only one does, also where another was left behind
        self.ready: deque[Held] = deque()  # to be gone on with
        self.busy_since = inf  # or asleep
        self.queue: SimpleQueue[Held | None] = SimpleQueue()  # for a thread that may wait
        self.threads: set[threading.Thread] = set()
        self.lock = threading.Lock()
        self.crowded_since = 0.0
        self.pause = threading.Event()  # never set
        self.under_way = 0
        self.ending = False

    @property
    def free(self) -> int:
        """For how many calls there is a slot, or will be in a moment, as calls have been ending.

        Were they claimed only then, slots would be empty for as long as that takes.
        """
        if self.buffered > BUFFER_BYTES:
            return 0
        ending = min(self.slots, int(self.pace.of_late() * SOON_SECONDS))
        return max(0, self.slots - len(self.held) + self.answered + ending)

    def submit(self, run: TaskRun, call: Call, *, wait: float = 0.0) -> None:
        """It is made as soon as there is a slot for it, but not before so many seconds."""
        due = time.monotonic() + max(0.0, wait)
        self.held[call.run_id, call.fence] = held = Held(run, call, due=due)
        with self.lock:
            heappush(self.early, (due, next(self.numbers), held))
        if not self.watching:
            self.begin_watching()
        self.watch.bell.ring()

    def look_after(self) -> None:
        """Whatever a call does that should not be possible, the others go on; to be asked often."""
        hangs = time.monotonic() - self.busy_since > HUNG_SECONDS
        if hangs:
            logger.error("a call hangs where none should; the others go on without it")
        if hangs or (self.held and not (self.watching and self.watching.is_alive())):
            self.begin_watching()
        self.client.tidy()  # nor need a target hold what nobody takes any more

    def begin_watching(self) -> None:
        self.busy_since = inf
        self.watching = threading.Thread(target=self.attend, name="calls", daemon=True)
        if not started(self.watching):
            self.watching = None  # until somebody looks after us
        self.watch.bell.ring()  # for one who was left behind, and sleeps

    # --- the thread that waits for all --------------------------------------------------------

    def attend(self) -> None:
        """Go on with whatever can, and begin what is due, until another one does it."""
        while not self.ending and self.is_watching():
            try:
                with self.sleeping:
                    self.ready.extend(self.watch.wait(self.rest()))
                while self.is_watching() and self.step():
                    pass
                self.widen()
            except Exception:
                logger.exception("waiting for calls failed, trying again")
                self.pause.wait(PAUSE_SECONDS)
        self.watch.bell.ring()  # whoever follows may have to watch what was added last

    def is_watching(self) -> bool:
        return self.watching is threading.current_thread()

    def step(self) -> bool:
        """One call a bit further; False if none can go on or begin."""
        self.busy_since = time.monotonic()
        if self.ready:
            try:
                held = self.ready.popleft()
            except IndexError:  # one who was left behind has taken it
                return True
            self.go_on(held)
        elif first := self.next_due():
            self.begin(first)
        else:
            self.busy_since = inf
            return False
        return True

    def rest(self) -> float:
        """For how long nothing is to be done, if no connection is ready before."""
        if self.ready:
            return 0.0
        most = inf if self.queue.empty() else WIDEN_SECONDS
        with self.lock:
            if not self.early or self.under_way >= self.slots:
                return most
            return min(most, self.early[0][0] - time.monotonic())

    def next_due(self) -> Held | None:
        """The first for which there is a slot by now."""
        with self.lock:
            while self.early and self.under_way < self.slots:
                if self.early[0][0] > time.monotonic():
                    break
                held = heappop(self.early)[-1]
                stale = held.due < time.monotonic() - STALE_SECONDS
                if not (held.line.is_cut or stale):  # else taken back, or canceled, or to be
                    held.started = True
                    self.under_way += 1
                    return held
        return None

    def begin(self, held: Held) -> None:
        metrics.observe("cronjob_executor_wait_seconds", time.monotonic() - held.due)
        try:
            failpoint("call.before")
            if request := held.call.request:
                held.steps = self.client.steps(request, held.line)
        except Exception as error:
            return self.end_with(held, broken(held, error))
        return self.go_on(held)

    def go_on(self, held: Held, *, patient: bool = False) -> None:
        """As far as it comes without waiting; who is `patient` waits for what nobody can watch."""
        try:
            while held.steps:
                if stream := next(held.steps):
                    return self.watch.add(stream, held)
                if not patient:
                    return self.queue.put(held)
            outcome = outcome_of(held, None)
        except StopIteration as end:
            outcome = outcome_of(held, end.value)
        except Exception as error:
            outcome = broken(held, error)
        return self.end_with(held, outcome)

    def end_with(self, held: Held, outcome: Outcome) -> None:
        held.size = outcome.size
        with self.lock:
            self.buffered += held.size
            self.answered += 1
            self.under_way -= 1
            self.pace.add()
        self.answers.append((held, outcome))
        self.wake()

    # --- threads that may wait ----------------------------------------------------------------

    def widen(self) -> None:
        """More threads, as long as something waits for one; to be asked often."""
        now = time.monotonic()
        if self.queue.empty():
            self.crowded_since = now
        elif now < self.crowded_since:
            return  # the last one could not be started
        elif len(self.threads) < FEW:
            self.grow(FEW - len(self.threads))
        elif now - self.crowded_since >= WIDEN_SECONDS:
            self.crowded_since = now
            self.grow(len(self.threads))

    def grow(self, number: int) -> None:
        with self.lock:
            room = 0 if self.ending else self.slots - len(self.threads)
            for _ in range(min(number, room)):
                thread = threading.Thread(target=self.work, name="call", daemon=True)
                if not started(thread):
                    self.crowded_since = time.monotonic() + PAUSE_SECONDS
                    break
                self.threads.add(thread)

    def work(self) -> None:
        while held := self.next():
            self.go_on(held, patient=True)
            self.watch.bell.ring()  # it may have to be watched, or its slot be free

    def next(self) -> Held | None:
        while True:
            try:
                return self.queue.get(timeout=IDLE_SECONDS)
            except Empty:
                with self.lock:
                    if len(self.threads) > FEW:
                        self.threads.discard(threading.current_thread())
                        return None

    # --- what is asked by the thread that has the database ------------------------------------

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
                self.answered -= 1
            self.held.pop((held.call.run_id, held.call.fence), None)

    def cut(self, keys: Iterable[Key]) -> None:
        """Let go of attempts that are no longer wanted; what still comes of them is nobody's."""
        for key in keys:
            if held := self.held.get(key):
                held.line.cut()
                if not held.started:
                    del self.held[key]

    def unstarted(self, *, late: float = -inf) -> list[Held]:
        """Take back what has not begun; or only what should have, so many seconds ago."""
        by = time.monotonic() - late
        with self.lock:
            found = [held for held in self.held.values() if not held.started and held.due <= by]
            for held in found:
                held.line.cut()
                del self.held[held.call.run_id, held.call.fence]
        return found

    def end(self, *, patience: float) -> None:
        with self.lock:  # from here on none is added
            self.ending = True
            patient = list(self.threads)
        self.watch.bell.ring()
        for _ in patient:
            self.queue.put(None)
        until = time.monotonic() + patience
        for thread in (*patient, *filter(None, [self.watching])):
            thread.join(max(0.0, until - time.monotonic()))
        if not (self.watching and self.watching.is_alive()):
            self.watch.close()


def outcome_of(held: Held, reply: http.Reply | None) -> Outcome:
    try:
        failpoint("call.sent")
        return calls.outcome(held.call, reply)
    except Exception as error:
        return broken(held, error)


def broken(held: Held, error: Exception) -> Outcome:
    logger.error("a call failed in an unforeseen way", exc_info=error)
    return calls.broken(held.call, error)


def started(thread: threading.Thread) -> bool:
    """A machine may allow no more of them for now."""
    try:
        thread.start()
    except RuntimeError:
        logger.exception("a thread could not be started, trying again")
        return False
    return True
