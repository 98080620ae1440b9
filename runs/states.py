"""The life of a run as data: which states there are, and which moves between them are legal."""

from django.db.models import TextChoices


class Status(TextChoices):
    # waits for its moment, or for a slot of its task
    SCHEDULED = "SCHEDULED", "Scheduled"
    # a process is calling
    RUNNING = "RUNNING", "Running"
    # an attempt failed, another one is due
    RETRYING = "RETRYING", "Retrying"
    # the target accepted, and will call back
    CALLBACK_PENDING = "CALLBACK_PENDING", "Callback pending"
    SUCCESS = "SUCCESS", "Success"
    CALLBACK_SUCCESS = "CALLBACK_SUCCESS", "Callback success"
    FAILED = "FAILED", "Failed"
    # the last attempt hit a deadline
    TIMEOUT = "TIMEOUT", "Timeout"
    # no callback came in time
    FAILED_TIMEOUT = "FAILED_TIMEOUT", "Callback timeout"
    CANCELED = "CANCELED", "Canceled"
    # not started because of its own task: overlap, or a full backlog
    SKIPPED = "SKIPPED", "Skipped"
    # not started because its time had passed
    MISSED = "MISSED", "Missed"


TRANSITIONS: dict[Status, tuple[Status, ...]] = {
    Status.SCHEDULED: (Status.RUNNING, Status.SKIPPED, Status.MISSED, Status.CANCELED),
    Status.RUNNING: (
        Status.SUCCESS,
        Status.FAILED,
        Status.TIMEOUT,
        Status.RETRYING,
        Status.CALLBACK_PENDING,
        Status.CALLBACK_SUCCESS,  # the callback overtook our own answer
        Status.SCHEDULED,  # released before it was sent
        Status.CANCELED,
    ),
    Status.RETRYING: (
        Status.RUNNING,
        Status.CALLBACK_SUCCESS,  # an earlier attempt reports success after all
        Status.CANCELED,
    ),
    Status.CALLBACK_PENDING: (
        Status.CALLBACK_SUCCESS,
        Status.FAILED,
        Status.FAILED_TIMEOUT,
        Status.RETRYING,  # only with retry_on_callback_failure
        Status.CANCELED,
    ),
}

# Tuples: a set inside a constraint would change its order, and the migration, from run to run.
FINAL = tuple(status for status in Status if status not in TRANSITIONS)
WAITING = (Status.SCHEDULED, Status.RETRYING)  # nothing is under way
OCCUPYING = (Status.RUNNING, Status.RETRYING, Status.CALLBACK_PENDING)  # hold a slot of the task
SUCCEEDED = (Status.SUCCESS, Status.CALLBACK_SUCCESS)


class Trigger(TextChoices):
    SCHEDULE = "SCHEDULE", "Schedule"
    MANUAL = "MANUAL", "Manual"
    CATCH_UP = "CATCH_UP", "Catch-up"
    REPLAY = "REPLAY", "Replay"


# Runs that no planned moment stands behind: there may be any number of them.
UNPLANNED = (Trigger.MANUAL, Trigger.REPLAY)


class ErrorKind(TextChoices):
    NONE = "", "None"
    CONNECT = "connect", "No connection"
    TIMEOUT = "timeout", "Deadline passed"
    HTTP = "http", "HTTP status"
    BODY = "body", "Body could not be read"
    REFUSED = "refused", "Address refused"
    TEMPLATE = "template", "Template could not be filled"
    CALLBACK = "callback", "Callback reported failure"
    LOST = "lost", "Process died"


class IllegalTransition(Exception):
    """A run cannot move from the one state to the other."""
