"""procrastinate: PostgreSQL, sixteen tasks at a time in each of two workers."""

import logging
import os

from calling import COUNT, URL, VERB, call, jobs
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

kind = SyncPsycopgConnector if VERB == "plant" else PsycopgConnector
app = App(connector=kind(conninfo=os.environ["PG_URL"]))


@app.task(name="get")
def get(url: str) -> None:
    call(url)


def periodic(number: int) -> None:
    @app.periodic(cron="* * * * * *")
    @app.task(name=f"every {number}")
    def task(timestamp: int) -> None:
        call(f"{URL}{timestamp * 1_000_000}/{number}")


if __name__ == "__main__":
    if VERB == "plant":
        with app.open():
            app.schema_manager.apply_schema()
            for at, url in jobs():
                get.configure(schedule_at=at).defer(url=url)
    else:
        for number in range(COUNT):
            periodic(number)
        logging.basicConfig(level="ERROR")
        app.run_worker(concurrency=16, fetch_job_polling_interval=0.2, delete_jobs="never")
