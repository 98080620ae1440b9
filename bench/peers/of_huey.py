"""huey with sixteen threads: on Redis in two processes, or on SQLite in one."""

import logging
import os
import signal

from calling import VERB, call, jobs
from huey import RedisHuey, SqliteHuey

if os.environ.get("STORE") == "sqlite":
    huey = SqliteHuey("bench", filename=f"{os.environ['PLACE']}/huey.sqlite3", fsync=True)
else:
    huey = RedisHuey("bench", url=os.environ["REDIS_URL"])


@huey.task()
def get(url: str) -> int:
    return call(url)


if __name__ == "__main__":
    logging.basicConfig(level="ERROR")
    if VERB == "plant":
        for at, url in jobs():
            get.schedule((url,), eta=at)
    else:
        consumer = huey.create_consumer(
            workers=16, periodic=False, initial_delay=0.01, max_delay=0.1, scheduler_interval=1
        )
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        consumer.start()
        while True:
            signal.pause()
