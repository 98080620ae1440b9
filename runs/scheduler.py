"""The whole scheduler: answers are settled, what is due becomes runs, what is ready is called."""

import logging
import math
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error as DBError
from django.db import connection
from django.db.models import Q

from cronjob.lib import clock, metrics, prepared
from cronjob.lib.database import SNAPSHOT_MAX, oldest_snapshot
from cronjob.lib.failpoints import failpoint
from cronjob.lib.loop import Loop
from runs import calls, pauses
from runs.claim import AGED, claim, issue, tasks_that_wait, unpark
from runs.executor import Executor, Held, Key
from runs.glance import Glance, LowWater, glance
from runs.lead import IN_TIME, TO_BEGIN, TO_CLAIM, TO_MAKE, Lead
from runs.lease import Lease
from runs.materialise import ALONE, materialise
from runs.models import TaskRun
from runs.rescue import expire, lose, put_back, reconcile, rescue
from runs.settle import settle_each
from runs.states import Status

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # how often calls in flight are looked up, in case somebody canceled one
TIDY_SECONDS = 5.0
CONTENDED_SECONDS = 0.05  # others hold what is ready
LEAST_SECONDS = 0.001  # what came while we were busy
SETTLE_MOST = 200
FRESH = timedelta(seconds=0.05)  # for so long nothing else is there than what was seen
GATHER_SECONDS = 0.01  # answers that come within it are settled together
LONG_SECONDS = 0.08  # no more than that is made up for
LATELY_SECONDS = 10.0  # for so long it is remembered
PATIENCE = (0.2, 0.5, 1.0, 2.0, 5.0)  # from trouble to trouble


class Scheduler:
    def __init__(self, *, loop: Loop, lease: Lease, executor: Executor) -> None:
        self.loop, self.lease, self.executor = loop, lease, executor
        self.low_water = LowWater()
        self.looked = self.tidied = self.warned = 0.0
        self.seen: Glance | None = None  # what there is to do, less what was done since
        self.again = math.inf  # by then something else may be there
        self.lasts = self.lasted_at = 0.0  # what is done together, and when that was seen
        self.looked_now = self.behind = False  # in this round; with what is to be taken
        self.grown = True  # something was made since plans were
        self.share, self.to_begin = ALONE, TO_BEGIN
        self.to_make, self.to_claim = TO_MAKE, TO_CLAIM
        self.troubles = self.owed = self.reach = 0
        self.swept = self.swept_held = 0  # up to which task
        self.forsaken: set[Key] = set()  # answers that no database takes
        self.unbegun: list[Held] = []  # to be put back
        metrics.watch("cronjob_executor_slots", lambda: executor.slots)
        metrics.watch("cronjob_executor_in_flight", lambda: len(executor.held))
        metrics.watch("cronjob_scheduler_beat_age_seconds", lambda: lease.age)

    def run(self, *, once: bool = False) -> None:
        """Until we are asked to stop; with `once`, until everything due has been called."""
        if once:
            self.to_begin = self.to_make = self.to_claim = IN_TIME
        while not self.loop.asked_to_stop:
            rest = self.careful_beat()
            if once and rest > 0 and not self.executor.held and not self.troubles:
                break
            until = time.monotonic() + rest
            self.loop.wait(rest)
            self.gather(until)
        self.drain()

    def hint(self) -> None:
        """Another process may have changed something, anywhere; called by any thread."""
        self.low_water.doubt()
        self.grown = True
        self.loop.wake()

    def careful_beat(self) -> float:
        """Whatever goes wrong in a round is told, and the next one comes."""
        try:
            rest = self.beat()
            self.troubles = 0
            return rest
        except DBError as error:
            logger.error("the database failed, trying again: %s", error)
            connection.close()
        except Exception:
            logger.exception("a round failed, trying again")
        self.seen = None  # what of it was done is not known, nor who told of something meanwhile
        self.troubles += 1
        metrics.count("cronjob_scheduler_troubles_total")
        return PATIENCE[min(self.troubles, len(PATIENCE)) - 1]

    def beat(self) -> float:
        """One round; for how long there is nothing to do."""
        begun = time.monotonic()
        self.executor.look_after()
        self.collect()
        if self.lease.lost:
            self.start_anew()
        seen = self.look()
        now = seen.present
        self.tidy(seen, now)
        if not self.lease.holds():
            return CONTENDED_SECONDS
        # Twice as much is taken as made, until nothing waits: what is made then begins at once.
        skipped, self.behind = self.behind, False
        made = 0 if skipped else self.make(seen, now)
        moved, more = self.take(seen.longest, now)
        self.behind = more and not skipped
        self.drop_canceled()
        self.grown = self.grown or made + moved > 0
        if made + moved:
            self.learn(begun, seen)
        if made == settings.CRONJOB_BATCH_MAX or more or skipped:
            return 0
        return self.rest()

    def learn(self, begun: float, seen: Glance) -> None:
        """How much earlier to begin: by as long as a round lasts, and by what came late of it."""
        ended, present = time.monotonic(), seen.present
        due = min((at for at in (seen.due, *seen.ready.values()) if at), default=present)
        late = (present - max(due, seen.now)).total_seconds()
        wanted = min(max(ended - begun, self.lasts + late), LONG_SECONDS)
        faded = self.lasts * math.exp((self.lasted_at - ended) / LATELY_SECONDS)
        self.lasts, self.lasted_at = max(wanted, faded), ended

    def look(self) -> Glance:
        """What there is to do; what was seen a moment ago is, less what was done."""
        seen, begun = self.seen, time.monotonic()
        if seen and seen.age < FRESH and begun < self.again and not self.low_water.doubted:
            self.looked_now = False
            return seen
        self.seen, self.again, self.looked_now = glance(self.low_water), math.inf, True
        metrics.observe("cronjob_scheduler_scan_latency", time.monotonic() - begun)
        return self.seen

    def look_again(self, seconds: float) -> None:
        """By then at the latest: there may be something that was not seen."""
        self.again = min(self.again, time.monotonic() + seconds)

    def tried(self, lead: Lead, at: datetime, now: datetime, *, done: int) -> None:
        """What was to be done `at` that time has been done, up to its lead, or is somebody else's.

        Nobody's it may be as well until it is due: it has no place yet, or a pause holds it.
        """
        if done:
            self.look_again(lead.pause)
        elif not self.looked_now:
            self.look_again(0)
        elif at > now:
            self.look_again(min(lead.pause / 2, (at - now).total_seconds()))
        else:
            self.look_again(CONTENDED_SECONDS)

    def gather(self, until: float) -> None:
        """One answer seldom comes alone, and ten cost little more to settle than one."""
        longest = max(GATHER_SECONDS, self.lasts)
        until = min(until, time.monotonic() + longest)
        while 0 < len(self.executor.answers) < len(self.executor.held) / 2:
            if self.loop.asked_to_stop or time.monotonic() >= until:
                break
            self.loop.pause(GATHER_SECONDS / 5)

    def rest(self) -> float:
        """Until something comes."""
        seen = self.seen
        assert seen
        if time.monotonic() >= self.again:
            return 0
        now = seen.present
        ready, lead = seen.ready.values() if self.executor.free else (), self.lead_of(seen, now)
        times = [at - lead.least for at in ready]
        times += [seen.due - self.making(seen, now)[0].least] if seen.due else []
        ahead = [(at - now).total_seconds() for at in times]
        for at in (seen.unanswered, seen.unpause):
            if at:  # what could not be done now is somebody else's for a moment
                ahead.append((at - now).total_seconds() if at > now else CONTENDED_SECONDS)
        if self.executor.held:  # one of them may be canceled
            ahead.append(self.looked + LOOK_SECONDS - time.monotonic())
        ahead.append(self.again - time.monotonic())
        return max(LEAST_SECONDS, min([settings.CRONJOB_POLL_SECONDS, *ahead]))

    # --- what a round is made of --------------------------------------------------------------

    def collect(self) -> None:
        """Settle what came back; what cannot be written for now is kept for the next round."""
        there = len(self.executor.answers)  # those that come meanwhile are more together later
        while answers := self.executor.finished(min(there, SETTLE_MOST)):
            there -= len(answers)
            try:
                left = settle_each([(held.run, outcome) for held, outcome in answers])
            except Exception:
                self.executor.give_back(answers)
                raise
            # They were sent: rescued they may be when their time is over, but never released.
            self.forsaken |= {(run.pk, run.fence) for run, _ in left}
            self.executor.release(answers)
            if any(held.run.slot or not outcome.ok for held, outcome in answers):
                self.look_again(0)  # something may be tried again, or have got its slot

    def make(self, seen: Glance, now: datetime) -> int:
        """Runs of the tasks that are due, or nearly; of how many."""
        lead, room = self.making(seen, now)
        if not seen.due or seen.due > now + lead.least:
            return 0
        made = materialise(
            now, ahead=lead.most, since=seen.due, share=self.share,
            owner=self.lease.process.name, room=room,
        )  # fmt: skip
        self.low_water.lower(seen.due)
        self.hand_over(made.begun, seen)
        full = (count := made.due.total()) == settings.CRONJOB_BATCH_MAX
        ready = {p: min(seen.due, seen.ready.get(p, seen.due)) for p in made.waiting}
        self.seen = replace(seen, due=seen.due if full else None, ready=seen.ready | ready)
        self.tried(lead, seen.due, now, done=count)
        return count

    def making(self, seen: Glance, now: datetime) -> tuple[Lead, int]:
        """How early runs are made, and how many may begin at once: if no other waits for a slot."""
        lead = self.to_begin.of(self.lasts)
        room = min(self.executor.free, settings.CRONJOB_BATCH_MAX)
        if not room or seen.paused or seen.ready_by(now + lead.most):
            return self.to_make.of(self.lasts), 0
        return lead, room

    def take(self, longest: int | None, now: datetime) -> tuple[int, bool]:
        """Call what is ready, or nearly; how many runs that moved, and if there may be more."""
        seen = self.seen
        assert seen
        lead = self.lead_of(seen, now)
        room = min(self.executor.free, settings.CRONJOB_BATCH_MAX)
        if not room or not seen.ready_by(now + lead.least):
            return 0, False
        ready = seen.ready_by(now + lead.most)
        moved = self.call(now, room, ready, longest, ahead=lead.most)
        if moved >= room:
            return moved, self.executor.free > 0
        later = {p: at for p, at in seen.ready.items() if p not in ready}
        self.seen = replace(seen, ready=later)
        self.tried(lead, min(seen.ready[p] for p in ready), now, done=moved)
        return moved, False

    def lead_of(self, seen: Glance, now: datetime) -> Lead:
        """Of claims. What is urgent, and far from due, takes no room of what is less so and due."""
        lead = self.to_claim.of(self.lasts)
        return self.to_claim if len(seen.ready_by(now + lead.most)) > 1 else lead

    def call(
        self, now: datetime, room: int, ready: list[int], longest: int | None, *, ahead: timedelta
    ) -> int:
        begun, seen, first = time.monotonic(), self.seen, None
        assert seen
        if longest is not None and len(ready) > 1:
            # Also where slots come free one by one, one in so many goes by age.
            share, self.owed = divmod(self.owed + room, AGED)
            first = (longest, share)
        claimed, moved = claim(
            now, owner=self.lease.process.name, room=room, priorities=ready, reach=self.reach,
            ahead=ahead, first=first, since=self.low_water.ready(),
        )  # fmt: skip
        metrics.observe("cronjob_scheduler_claim_seconds", time.monotonic() - begun)
        # Where many wait for a slot of their own task, look past them for those of others.
        in_vain = moved > len(claimed) < room
        self.reach = min(4 * max(room, self.reach), settings.CRONJOB_BATCH_MAX) if in_vain else 0
        if in_vain:
            self.look_again(0)
        self.hand_over(claimed, seen)
        return moved

    def hand_over(self, claimed: list[TaskRun], seen: Glance) -> None:
        """To those who call."""
        tokens = issue([run for run in claimed if run.is_asynchronous])
        for run in claimed:
            url, token = tokens.get(run.pk, ("", ""))
            at = run.start_time or seen.present
            call = calls.prepare(run, now=at, callback_url=url, callback_token=token)
            self.executor.submit(run, call, wait=(at - seen.present).total_seconds())

    def drop_canceled(self) -> None:
        """Cut off calls of runs that somebody ended meanwhile; give back what got no slot."""
        if not self.executor.held or time.monotonic() - self.looked < LOOK_SECONDS:
            return
        self.looked = time.monotonic()
        # Claimed for slots that were to be free by now: somebody else may have some.
        self.unbegun += self.executor.unstarted(late=LOOK_SECONDS)
        self.put_back_unbegun()
        keys = list(self.executor.held)
        # Whoever called back before it answered may still answer: that ends by itself.
        open_or_ended = Q(deadline_at__isnull=False) | Q(
            status__in=(Status.CALLBACK_SUCCESS, Status.FAILED)
        )
        ours = TaskRun.objects.filter(open_or_ended, pk__in=[pk for pk, _ in keys])
        wanted = set(ours.values_list("pk", "fence"))
        self.executor.cut([key for key in keys if key not in wanted])

    def tidy(self, seen: Glance, now: datetime) -> None:
        """What nobody waits for: a few times a minute is enough."""
        if seen.unanswered and seen.unanswered <= now:
            expire(now)
        if seen.unpause and seen.unpause <= now:
            pauses.end_due(now)
        if time.monotonic() - self.tidied < TIDY_SECONDS:
            return
        self.tidied = time.monotonic()
        self.look_for_snapshots()
        if self.grown:
            self.grown = False
            prepared.forget()
        self.share = self.lease.share()
        self.unpark(now)
        self.swept_held = pauses.release_batch(now, after=self.swept_held)
        if seen.overdue:  # something is being called somewhere
            held = {*self.executor.held, *self.forsaken}
            reconcile(self.lease.process.name, held, now=now)
        gone = seen.dead is not None and seen.dead < now
        if (gone or seen.overdue) and self.lease.settled_in():
            rescue(now)

    def unpark(self, now: datetime) -> None:
        """Batch after batch, round and round; one that fails does not keep the others waiting."""
        waiting = tasks_that_wait(after=self.swept)
        full = len(waiting) == settings.CRONJOB_BATCH_MAX
        self.swept = waiting[-1] if full else 0
        unpark(waiting, now)

    def look_for_snapshots(self) -> None:
        if time.monotonic() - self.warned < SNAPSHOT_MAX:
            return
        if (age := oldest_snapshot()) >= SNAPSHOT_MAX:
            self.warned = time.monotonic()
            logger.warning("a transaction has been open for %d s: polls slow down, see doctor", age)

    def start_anew(self) -> None:
        """Others took us for dead and have our runs: nothing that we still do counts."""
        logger.error("the lease was lost; starting anew under another name")
        self.executor.cut(list(self.executor.held))
        self.lease.register()
        self.seen = None

    # --- the end ------------------------------------------------------------------------------

    def drain(self) -> None:
        """Give back what has not begun, wait for what has, and go last of all."""
        until = time.monotonic() + settings.CRONJOB_DRAIN_SECONDS
        self.unbegun += self.executor.unstarted()
        self.insist(self.lease.drain, until)
        self.insist(self.put_back_unbegun, until)
        failpoint("drain.released")
        while self.executor.held and not self.over(until):
            self.loop.wait(min(LOOK_SECONDS, max(0.0, until - time.monotonic())))
            self.executor.look_after()
            self.insist(self.collect, until)
            self.insist(self.drop_canceled, until)
        self.insist(self.leave, until)
        self.executor.end(patience=1)
        self.insist(self.lease.end, until)

    def put_back_unbegun(self) -> None:
        while self.unbegun:
            put_back(self.unbegun[-1].run, now=clock.now())
            self.unbegun.pop()
            self.look_again(0)

    def leave(self) -> None:
        """What is not answered by now is lost; others need not wait to find out."""
        while self.executor.answers:
            self.collect()
        lose([copy(held.run) for held in self.executor.held.values()], now=glance().now)
        self.executor.cut(list(self.executor.held))

    def insist(self, step: Callable[[], None], until: float) -> None:
        """The database may be away just now, and back in time."""
        while True:
            try:
                return step()
            except Exception as error:
                connection.close()
                if self.over(until):
                    logger.error("left undone: %s; the lease will run out", error)
                    return None
                logger.warning("not possible yet: %s", error)
                self.loop.wait(PATIENCE[1])

    def over(self, until: float) -> bool:
        return self.loop.asked_to_stop > 1 or time.monotonic() >= until
