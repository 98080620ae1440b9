"""Targets that call back: many clients at once, through real web processes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import requests

from tests.processes import answering, free_port

if TYPE_CHECKING:
    from tests.faults.world import World

SUCCESS: dict[str, Any] = {"status": "SUCCESS"}
FAILED: dict[str, Any] = {"status": "FAILED", "error_message": "no disk"}


@contextmanager
def web(world: World, *, failpoints: str = "", processes: int = 1) -> Iterator[dict[str, str]]:
    """gunicorn for this world; the setting by which its schedulers find it."""
    bind = f"127.0.0.1:{free_port()}"
    one = world.process(
        "gunicorn", "-c", "cronjob/gunicorn.conf.py", "cronjob.wsgi", CRONJOB_BIND=bind,
        CRONJOB_WEB_PROCESSES=str(processes), FAILPOINTS=failpoints,
    )  # fmt: skip
    try:
        assert answering(f"http://{bind}")
    except (AssertionError, requests.ConnectionError) as error:
        raise AssertionError(one.output) from error
    yield {"CRONJOB_BASE_URL": f"http://{bind}"}
    assert one.end() == 0, one.output
    assert "Traceback" not in one.output, one.output


def url_of(request: Any) -> str:
    url: str = request.headers["X-Cronjob-Callback-Url"]
    return url


def report(url: str, body: dict[str, Any]) -> tuple[int, Any]:
    answer = requests.post(url, json=body, timeout=60)
    told = answer.json()
    return answer.status_code, told.get("final_status", told.get("code"))


def at_once(url: str, *bodies: dict[str, Any]) -> list[tuple[int, Any]]:
    """Reports that are sent in the same instant."""
    gate, found = threading.Barrier(len(bodies)), []

    def send(body: dict[str, Any]) -> None:
        gate.wait(30)
        found.append(report(url, body))

    threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def answered(urls: Iterable[str], *, clients: int) -> list[int]:
    """Each URL is reported to once, by so many clients at the same time; the status codes."""
    queue: SimpleQueue[str] = SimpleQueue()
    for url in urls:
        queue.put(url)
    codes: list[int] = []

    def client() -> None:
        with requests.Session() as session:
            while True:
                try:
                    url = queue.get_nowait()
                except Empty:
                    return
                codes.append(session.post(url, json=SUCCESS, timeout=120).status_code)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes
