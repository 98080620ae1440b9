"""A typed client of the REST API, for programs that make tasks and wait for runs.

client = Client("http://127.0.0.1:8000", key)
task = client.create_task(name="report", every="1h", target_url="http://svc/report")
run = client.trigger_and_wait(task["id"])
"""

import threading
import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypedDict, cast

import requests

FINAL = (
    "SUCCESS", "CALLBACK_SUCCESS", "FAILED", "TIMEOUT", "FAILED_TIMEOUT", "CANCELED", "SKIPPED",
    "MISSED",
)  # fmt: skip
TRIES = 3
LOOK_SECONDS = (0.1, 2.0)  # between two looks at a run: at first, and at most
NEVER = threading.Event()


class LastRun(TypedDict):
    id: int
    status: str
    scheduled_time: str
    end_time: str | None


class Task(TypedDict):
    id: int
    uuid: str
    name: str
    description: str
    tags: list[str]
    schedule_kind: str
    cron_expr: str | None
    every: str | None
    run_at: str | None
    start_at: str | None
    end_at: str | None
    jitter: str | None
    timezone: str
    exec_type: str
    http_method: str
    target_url: str
    headers: dict[str, str]
    body_template: str
    connect_timeout_seconds: float
    timeout_seconds: float
    follow_redirects: bool
    secret_headers: list[str]
    secret_paths: list[str]
    retry_policy: dict[str, Any]
    max_concurrency: int
    concurrency_policy: str
    misfire_policy: str
    misfire_grace_seconds: int
    catchup_limit: int
    start_deadline_seconds: int | None
    on_lost: str
    priority: str
    callback_method: str
    callback_timeout_sec: int
    work: dict[str, Any] | None
    status: str
    version: int
    disabled_reason: str
    ended: bool
    next_run_at: str | None
    last_run: LastRun | None
    created_at: str
    updated_at: str


class RunRow(TypedDict):
    """A run in a list."""

    id: int
    uuid: str
    task_id: int
    task_name: str
    trigger: str
    status: str
    reason: str
    attempt: int
    max_attempts: int
    scheduled_time: str
    start_time: str | None
    end_time: str | None
    lateness_ms: int | None
    duration_ms: int | None
    request_method: str
    request_url: str
    response_code: int | None
    response_truncated: bool
    error_kind: str
    error_message: str
    next_retry_time: str | None
    callback_deadline: str | None
    progress: float | None
    progress_message: str
    trace_id: str
    owner: str | None
    missed: dict[str, Any] | None
    created_at: str
    updated_at: str


class Run(RunRow):
    """A run with all that was sent and received."""

    request_headers: dict[str, str]
    request_body: str
    response_headers: dict[str, str]
    response_body: str
    timings: dict[str, int | None]
    attempts: list[dict[str, Any]]


class Moment(TypedDict):
    at: str
    local: str
    fires_at: str
    note: str | None


class Change(TypedDict):
    """One step in the log of a task."""

    id: int
    at: str
    who: str
    verb: str
    reason: str
    version: int
    changes: dict[str, dict[str, Any]]


class Done(TypedDict):
    id: int
    outcome: str
    detail: str
    run_id: int | None


class BulkDone(TypedDict):
    """What was done to the rows of one answer, or would be."""

    action: str
    dry_run: bool
    matched: int
    total: int
    total_capped: bool
    changed: int
    results: list[Done]
    next_after_id: int | None


class Paused(TypedDict):
    tag: str
    reason: str
    until: str | None
    created_at: str


class CronjobError(Exception):
    """What the server refused, and why."""

    def __init__(self, status: int, said: dict[str, Any]) -> None:
        self.status = status
        self.code: str = said.get("code", "")
        self.message: str = said.get("message", "")
        self.fields: dict[str, list[str]] = said.get("fields", {})
        self.request_id: str = said.get("request_id", "")
        super().__init__(f"{status} {self.code}: {self.message}")


class StillRunning(Exception):
    """The run was not over in time; `run` is what it was at the last look."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(f"run {run['id']} is still {run['status']}")


class Client:
    """One server and one key; may be shared by threads that each make one call at a time."""

    def __init__(self, url: str, key: str, *, timeout: float = 10.0) -> None:
        self.base = f"{url.rstrip('/')}/api/v1"
        self.timeout = timeout
        self.session = requests.Session()
        self.session.trust_env = False  # a .netrc would take the place of the key
        self.session.headers["Authorization"] = f"Bearer {key}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.session.close()

    # --- tasks --------------------------------------------------------------------------------

    def tasks(self, **filters: Any) -> Iterator[Task]:
        """Every task that the filters match, page by page."""
        return cast(Iterator[Task], self.pages("tasks", filters))

    def task(self, id: int) -> Task:
        return cast(Task, self.call("GET", f"tasks/{id}"))

    def create_task(self, **fields: Any) -> Task:
        return cast(Task, self.call("POST", "tasks", fields))

    def update_task(self, id: int, **fields: Any) -> Task:
        """Change these fields; with `version` only if nobody else changed the task meanwhile."""
        return cast(Task, self.call("PATCH", f"tasks/{id}", fields))

    def delete_task(self, id: int) -> None:
        self.call("DELETE", f"tasks/{id}")

    def enable(self, id: int) -> None:
        self.call("POST", f"tasks/{id}/enable")

    def disable(self, id: int, *, reason: str = "") -> None:
        self.call("POST", f"tasks/{id}/disable", {"reason": reason})

    def next(self, id: int, *, count: int = 10) -> list[Moment]:
        told = self.call("GET", f"tasks/{id}/next", query={"count": count})
        return cast(list[Moment], told["moments"])

    def preview(self, **schedule: Any) -> list[Moment]:
        return cast(list[Moment], self.call("POST", "tasks/preview", schedule)["moments"])

    def explain(self, id: int, at: str) -> dict[str, Any]:
        """Why the task ran or did not run then."""
        return cast(dict[str, Any], self.call("GET", f"tasks/{id}/explain", query={"at": at}))

    def changes(self, id: int) -> Iterator[Change]:
        """Who changed what of the task, the newest first."""
        return cast(Iterator[Change], self.pages(f"tasks/{id}/changes", {}))

    def restore(self, id: int, version: int) -> Task:
        """Make the task what it was in an earlier version."""
        return cast(Task, self.call("POST", f"tasks/{id}/restore", {"version": version}))

    def bulk_tasks(self, action: str, filter: dict[str, Any], **how: Any) -> list[BulkDone]:
        """One verb for all tasks that the filter matches, however many answers that takes.

        With `dry_run=True` only what it would do.
        """
        return self.bulk("tasks/bulk", {"action": action, "filter": filter} | how)

    def pause(self, *, tag: str = "", reason: str = "", until: str | None = None) -> Paused:
        """Nothing fires until it is resumed, or nothing of the tag."""
        body = {"tag": tag, "reason": reason, "until": until}
        return cast(Paused, self.call("POST", "pause", body))

    def pauses(self) -> list[Paused]:
        return cast(list[Paused], self.call("GET", "pause")["pauses"])

    def resume(self, *, tag: str | None = None) -> bool:
        """End the pause of a tag, or every pause; whether there was one."""
        return bool(self.call("POST", "resume", {} if tag is None else {"tag": tag})["resumed"])

    # --- runs ---------------------------------------------------------------------------------

    def trigger(
        self, id: int, *, override_body: str | None = None, force_async: bool = False,
        key: str = "",
    ) -> int:  # fmt: skip
        """One run now; its id. Sent again after a broken connection it is still one run."""
        body: dict[str, Any] = {"force_async": True} if force_async else {}
        return self.ask_for(f"tasks/{id}/trigger", body, override_body, key)

    def replay(self, run: int, *, override_body: str | None = None, key: str = "") -> int:
        """The task of a run once more, for the time that the run was for."""
        return self.ask_for(f"runs/{run}/replay", {}, override_body, key)

    def ask_for(self, path: str, body: dict[str, Any], override: str | None, key: str) -> int:
        if override is not None:
            body["override_body"] = override
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return int(self.call("POST", path, body, headers=headers)["run_id"])

    def trigger_and_wait(self, id: int, *, seconds: float = 300, **asked: Any) -> Run:
        """One run now, as it is once it is over."""
        return self.wait(self.trigger(id, **asked), seconds=seconds)

    def wait(self, run: int, *, seconds: float = 300) -> Run:
        """Look at a run until it is over, less and less often."""
        deadline, pause = time.monotonic() + seconds, LOOK_SECONDS[0]
        while True:
            found = self.run(run)
            left = deadline - time.monotonic()
            if found["status"] in FINAL:
                return found
            if left <= 0:
                raise StillRunning(found)
            NEVER.wait(min(pause, left))
            pause = min(pause * 1.5, LOOK_SECONDS[1])

    def runs(self, *, task: int | None = None, **filters: Any) -> Iterator[RunRow]:
        """Every run that the filters match, the newest first; `from_`, since `from` is a word."""
        path = "runs" if task is None else f"tasks/{task}/runs"
        return cast(Iterator[RunRow], self.pages(path, filters))

    def run(self, id: int) -> Run:
        return cast(Run, self.call("GET", f"runs/{id}"))

    def cancel(self, run: int, *, reason: str = "") -> None:
        self.call("POST", f"runs/{run}/cancel", {"reason": reason} if reason else {})

    def bulk_runs(self, action: str, filter: dict[str, Any], **how: Any) -> list[BulkDone]:
        """Cancel or replay all runs that the filter matches."""
        return self.bulk("runs/bulk", {"action": action, "filter": filter} | how)

    def callbacks(self, run: int) -> Iterator[dict[str, Any]]:
        return self.pages(f"runs/{run}/callbacks", {})

    # --- how it is done -----------------------------------------------------------------------

    def bulk(self, path: str, body: dict[str, Any]) -> list[BulkDone]:
        """So many rows an answer, until there are no more."""
        done: list[BulkDone] = []
        after: int | None = 0
        while after is not None:
            done.append(self.call("POST", path, body | {"after_id": after}))
            after = done[-1]["next_after_id"]
        return done

    def pages(self, path: str, filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        named = {name.removesuffix("_"): value for name, value in filters.items()}
        query: dict[str, Any] | None = {"page_size": 200} | named
        while path:
            page = self.call("GET", path, query=query)
            yield from page["results"]
            path, query = page["next"] or "", None

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *,
        query: dict[str, Any] | None = None, headers: dict[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """Ask, and ask again where that can do no harm."""
        url = path if "://" in path else f"{self.base}/{path}"
        harmless = method == "GET" or bool(headers)
        for tries_left in reversed(range(TRIES if harmless else 1)):
            try:
                answer = self.session.request(
                    method, url, json=body, params=query, headers=headers, timeout=self.timeout
                )
            except (requests.ConnectionError, requests.ReadTimeout):
                if not tries_left:
                    raise
            else:
                if answer.status_code not in (429, 502, 503) or not tries_left:
                    return said(answer)
                asked = answer.headers.get("Retry-After", "")
                NEVER.wait(min(float(asked) if asked.isdigit() else 1.0, self.timeout))
        raise AssertionError("the last try answers or raises")


def said(answer: requests.Response) -> Any:
    try:
        told = answer.json()
    except ValueError:
        told = {"message": answer.text[:200]}
    if not answer.ok:
        raise CronjobError(answer.status_code, told if isinstance(told, dict) else {})
    return told
