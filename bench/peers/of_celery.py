"""Celery on Redis: sixteen threads in each of two workers, and beat for what is periodic."""

import os

from calling import COUNT, URL, VERB, call, jobs
from celery import Celery

place = os.environ["REDIS_URL"].replace("unix://", "redis+socket://")
app = Celery("of_celery", broker=place, backend=place)
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)


@app.task(name="get")
def get(url: str) -> int:
    return call(url)


if __name__ == "__main__":
    if VERB == "plant":
        with app.producer_pool.acquire(block=True) as producer:
            for at, url in jobs():
                get.apply_async((url,), eta=at, producer=producer)
    elif VERB == "beat":
        app.conf.beat_schedule = {
            f"every {number}": {"task": "get", "schedule": 1.0, "args": (f"{URL}1/{number}",)}
            for number in range(COUNT)
        }
        app.Beat(loglevel="ERROR", schedule=f"{os.environ['PLACE']}/beat").run()
    else:
        name = f"--hostname={os.getpid()}@bench"
        app.worker_main(["worker", "--pool=threads", "--concurrency=16", name, "--loglevel=ERROR"])
