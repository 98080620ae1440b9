"""APScheduler 3 with its jobs in PostgreSQL: sixteen threads in one process; it knows no more."""

import logging
import os
import signal
from datetime import UTC

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from calling import COUNT, URL, VERB, call, jobs


def scheduler() -> BackgroundScheduler:
    url = os.environ["PG_URL"].replace("postgresql://", "postgresql+psycopg://")
    # Nothing is given up for being late.
    defaults = {"misfire_grace_time": None, "coalesce": False, "max_instances": 100}
    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url)},
        executors={"default": ThreadPoolExecutor(16)}, job_defaults=defaults, timezone=UTC,
    )  # fmt: skip


if __name__ == "__main__":
    logging.basicConfig(level="ERROR")
    made = scheduler()
    made.start(paused=True)
    if VERB == "plant":
        for at, url in jobs():
            made.add_job(call, "date", args=(url,), run_date=at)
        made.shutdown()
    else:
        for number in range(COUNT):
            made.add_job(call, "interval", args=(f"{URL}1/{number}",), seconds=1)
        made.resume()
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.pause()
