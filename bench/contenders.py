"""Who takes part in a comparison: ourselves, the peers, and the bare limit."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import ground
from bench.ground import PEERS, ROOT, Group, Variables

LONG = 1200


@dataclass
class Field:
    """Where a contender works: its variables and its processes."""

    contender: "Contender"
    place: Path
    variables: Variables
    group: Group = field(default_factory=Group)

    def plant(self, *words: object) -> None:
        self.contender.plant(self, *words)

    def start(self, *commands: tuple[object, ...]) -> None:
        for command in commands or self.contender.commands():
            self.group.start(*command, variables=self.variables, directory=self.contender.directory)

    def tick(self, count: int, first: int, url: str, *, apart: int = 0) -> None:
        """Start with so many tasks that are due each second, so many microseconds apart."""
        self.contender.tick(self, count, first, url, apart)

    @property
    def quiet(self) -> Variables:
        """Of a process of ours that logs only what is wrong."""
        return ground.surroundings(self.variables | {"CRONJOB_LOG_LEVEL": "warning"})

    @property
    def server(self) -> str:
        return "postgres" if "PG_URL" in self.variables else "redis-server"


@dataclass
class Contender:
    name: str
    script: str
    workers: int = 1
    needs: str = "postgresql"
    variables: Variables = field(default_factory=dict)
    directory: Path = PEERS
    planting: float = 0.0  # seconds that each job takes to be handed over
    beat: bool = False  # what is due each second comes from a process of its own

    @contextmanager
    def ready(self) -> Iterator[Field]:
        with ExitStack() as stack:
            place = stack.enter_context(ground.directory())
            variables = {"PLACE": str(place), **self.variables}
            if self.on_node:
                variables["NODE_PATH"] = str(ground.node_modules())
            if self.needs == "postgresql":
                variables["PG_URL"] = stack.enter_context(ground.postgres())
            elif self.needs == "redis":
                variables["REDIS_URL"] = stack.enter_context(ground.redis(place))
            made = Field(self, place, variables)
            stack.callback(made.group.end)
            self.prepare(made)
            yield made

    @property
    def on_node(self) -> bool:
        return self.script.endswith(".cjs")

    @property
    def program(self) -> tuple[object, ...]:
        return "node" if self.on_node else ground.python(), PEERS / self.script

    def prepare(self, where: Field) -> None:
        """Nothing, for most."""

    def plant(self, where: Field, *words: object) -> None:
        ask(where, *self.program, "plant", *words)

    def commands(self) -> list[tuple[object, ...]]:
        """Of its workers."""
        return [(*self.program, "worker")] * self.workers

    def tick(self, where: Field, count: int, first: int, url: str, apart: int) -> None:
        self.plant(where, 0, 0, 0, url)  # which makes its tables; when, is theirs to say
        if self.beat:
            where.start(*self.commands(), (*self.program, "beat", count, url))
        else:
            where.start(*[(*self.program, "every", count, url)] * self.workers)


@dataclass
class Ours(Contender):
    flags: tuple[str, ...] = ()

    def commands(self) -> list[tuple[object, ...]]:
        return [(sys.executable, "manage.py", "runscheduler", *self.flags)]

    def tick(self, where: Field, count: int, first: int, url: str, apart: int) -> None:
        self.plant(where, count, first, -1_000_000, url, apart)
        where.start()

    def prepare(self, where: Field) -> None:
        where.variables |= {
            "CRONJOB_DATA_DIR": str(where.place), "CRONJOB_SECRET_KEY": "only to measure " * 4,
            "CRONJOB_LOG_LEVEL": "info", "CRONJOB_LOG_FORMAT": "json",
            "DJANGO_SETTINGS_MODULE": "cronjob.settings", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        if self.needs == "postgresql":
            where.variables["DATABASE_URL"] = where.variables["PG_URL"]
        ask(where, sys.executable, "manage.py", "migrate")

    def plant(self, where: Field, *words: object) -> None:
        ask(where, sys.executable, "-m", "bench.planting", *words)


def ask(where: Field, *command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=where.contender.directory, text=True, timeout=LONG,
        env=ground.surroundings(where.variables), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def ours(
    name: str = "Cronjob", *, needs: str = "postgresql", processes: int = 2, slots: int = 0
) -> Ours:
    flags = [f"--processes={processes}", *([f"--slots={slots}"] if slots else [])]
    return Ours(name, "", needs=needs, directory=ROOT, flags=tuple(flags))


def peer(name: str, script: str, count: int = 1, **fields: object) -> Contender:
    script = script if "." in script else f"{script}.py"
    return Contender(name, f"of_{script}", workers=count, **fields)  # type: ignore[arg-type]


PROCRASTINATE = peer("procrastinate", "procrastinate", 2, planting=0.004)
CELERY = peer("Celery, threads", "celery", 2, needs="redis", planting=0.002, beat=True)
DJANGO_Q = peer("django-q2", "djangoq")
APSCHEDULER = peer("APScheduler", "apscheduler", planting=0.002)
# Of 16, 32, 64 and 128 calls at once in each worker, what each made most of.
MANY = {"AT_ONCE": "128"}
GRAPHILE = peer("graphile-worker", "graphile.cjs", 2, variables={**MANY, "IN_A_ROW": "500"})
GRAPHILE_AT_REST = peer("graphile-worker", "graphile.cjs", 2, variables={"IN_A_ROW": "1"})
PGBOSS = peer("pg-boss", "pgboss.cjs", 2)
BULLMQ = peer("BullMQ, Redis", "bullmq.cjs", 2, needs="redis", variables=MANY)
HUEY = peer("huey, Redis", "huey", 2, needs="redis")
HUEY_SQLITE = peer("huey, SQLite", "huey", needs="", variables={"STORE": "sqlite"})


def limit(client: str, *, at_once: int) -> Contender:
    variables = {"CLIENT": client, "AT_ONCE": str(at_once), "PYTHONPATH": str(ROOT)}
    return peer(f"bare limit, {client}", "limit", 2, variables=variables)


# As many at once as each made most of; ours as many as a scheduler has slots.
LIMIT, LIMIT_URLLIB3 = limit("requests", at_once=8), limit("urllib3", at_once=16)
LIMIT_OURS = limit("ours", at_once=256)
