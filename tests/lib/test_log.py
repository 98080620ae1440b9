"""A line of the log is one JSON object, or one text for a terminal, with the ids it belongs to."""

import io
import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from select import PIPE_BUF
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib import log
from cronjob.lib.log import JsonFormatter, TextFormatter, request_id
from tests.factories import NOON


class Log:
    """A logger of its own, and what it has written."""

    def __init__(self, formatter):
        self.stream = io.StringIO()
        handler = log.Lines(self.stream)
        handler.setFormatter(formatter)
        self.logger = logging.Logger("cronjob.tests")
        self.logger.addHandler(handler)

    @property
    def text(self):
        return self.stream.getvalue()

    @property
    def lines(self):
        return [json.loads(line) for line in self.text.split("\n") if line]


@pytest.fixture
def told():
    return Log(JsonFormatter())


@pytest.fixture
def terminal():
    return Log(TextFormatter())


@pytest.fixture
def _request():
    mark = request_id.set("a-request")
    yield
    request_id.reset(mark)


def failed(logger):
    try:
        raise ZeroDivisionError("too small")
    except ZeroDivisionError:
        logger.exception("it failed")


def record(text, **fields):
    return logging.makeLogRecord({"msg": text, "created": NOON.timestamp() + 0.25, **fields})


def test_a_line_is_one_json_object_with_time_level_logger_and_message(told):
    told.logger.warning("%d of %s", 3, "four")
    (line,) = told.lines
    assert line.pop("ts").endswith("Z")
    assert line == {"level": "warning", "logger": "cronjob.tests", "msg": "3 of four"}


def test_the_time_is_that_of_the_event_in_utc_to_the_millisecond():
    line = json.loads(JsonFormatter().format(record("x")))
    assert line["ts"] == "2026-01-01T12:00:00.250Z"
    assert datetime.fromisoformat(line["ts"]) == datetime.fromtimestamp(
        NOON.timestamp() + 0.25, UTC
    )


def test_a_message_of_many_lines_is_one_line(told):
    told.logger.info("one\ntwo\r\n\N{LINE SEPARATOR}three")
    assert told.text.count("\n") == 1
    assert json.loads(told.text)["msg"] == "one\ntwo\r\n\N{LINE SEPARATOR}three"


def test_every_language_can_be_read_as_it_is(told):
    told.logger.info("每日 “täglich” 🕛")
    assert "每日 “täglich” 🕛" in told.text


@pytest.mark.parametrize("name", log.FIELDS)
def test_an_id_that_is_handed_over_is_a_field_of_the_line(told, name):
    told.logger.info("x", extra={name: 42})
    assert told.lines[0][name] == 42


def test_the_ids_that_operators_look_for_are_fields():
    promised = (
        "trace_id",
        "task_id",
        "run_id",
        "attempt",
        "status",
        "err",
        "latency_ms",
        "target_url",
    )
    assert set(promised) <= set(log.FIELDS)


def test_what_is_handed_over_and_not_asked_for_stays_out(told):
    told.logger.info("x", extra={"password": "hunter2", "task_id": 7})
    assert told.lines[0]["task_id"] == 7
    assert "hunter2" not in told.text


@pytest.mark.usefixtures("_request")
def test_the_id_of_the_request_is_on_each_of_its_lines(told, terminal):
    told.logger.info("one")
    told.logger.info("two", extra={"run_id": 1})
    assert [line["request_id"] for line in told.lines] == ["a-request", "a-request"]
    terminal.logger.info("x")
    assert terminal.text.endswith("request_id=a-request\n")


def test_outside_a_request_there_is_no_id_of_one(told):
    told.logger.info("x")
    assert "request_id" not in told.lines[0]


def test_what_json_cannot_say_is_told_as_text(told):
    told.logger.info("x", extra={"status": NOON, "err": ZeroDivisionError("too small")})
    (line,) = told.lines
    assert (line["status"], line["err"]) == (str(NOON), "too small")


def test_an_exception_is_in_the_line_with_its_traceback(told):
    failed(told.logger)
    (line,) = told.lines
    assert (line["level"], line["msg"]) == ("error", "it failed")
    assert line["err"].startswith("Traceback (most recent call last):\n")
    assert line["err"].endswith("ZeroDivisionError: too small")


def test_on_a_terminal_a_line_is_time_level_message_and_fields():
    line = TextFormatter().format(record("hello", levelname="INFO", run_id=42, status="SUCCESS"))
    assert line == "12:00:00 info    hello  run_id=42 status=SUCCESS"


def test_on_a_terminal_a_line_without_fields_ends_with_its_message():
    assert TextFormatter().format(record("hello", levelname="ERROR")) == "12:00:00 error   hello"


def test_on_a_terminal_the_traceback_comes_below_the_line(terminal):
    failed(terminal.logger)
    first, second, *_, last = terminal.text.splitlines()
    assert first.endswith("error   it failed")
    assert (second, last) == ("Traceback (most recent call last):", "ZeroDivisionError: too small")


# Such as GET /%0A12:00:00%20info%20all%20is%20well.
def test_on_a_terminal_nobody_adds_a_line_by_what_they_ask_for(terminal):
    terminal.logger.info("request", extra={"path": "/\n12:00:00 info    all is well"})
    assert terminal.text.count("\n") == 1


@pytest.mark.parametrize(("as_json", "formatter"), [(True, JsonFormatter), (False, TextFormatter)])
def test_the_form_is_chosen_by_the_settings(as_json, formatter):
    config = log.config(level="warning", as_json=as_json)
    assert config["formatters"]["line"] == {"()": formatter}
    assert config["root"] == {"handlers": ["stderr"], "level": "WARNING"}


def test_lines_go_to_standard_error_since_standard_output_is_for_answers():
    handler = log.config(level="info", as_json=True)["handlers"]["stderr"]
    assert handler == {"class": "cronjob.lib.log.Lines", "formatter": "line"}
    assert issubclass(log.Lines, logging.StreamHandler)


def test_what_is_logged_together_is_written_together_and_in_order(told):
    with log.together():
        told.logger.info("one")
        told.logger.info("two")
        assert not told.text
    told.logger.info("three")
    assert [line["msg"] for line in told.lines] == ["one", "two", "three"]


def test_what_another_thread_logs_meanwhile_is_written_at_once(told):
    with log.together():
        told.logger.info("held back")
        thread = Thread(target=told.logger.info, args=("at once",))
        thread.start()
        thread.join()
        assert [line["msg"] for line in told.lines] == ["at once"]


def test_what_was_logged_together_is_written_also_when_it_ends_in_an_error(told):
    def failing():
        with log.together():
            told.logger.info("before")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert [line["msg"] for line in told.lines] == ["before"]


class Broken(io.StringIO):
    def write(self, _text):
        raise BrokenPipeError


@pytest.mark.parametrize("stream", [None, Broken()])
def test_nobody_fails_because_nobody_reads_what_was_logged_together(told, stream):
    (handler,) = told.logger.handlers
    with log.together():
        told.logger.info("unheard")
        handler.stream = stream


def test_what_is_together_with_more_stays_in_its_place(told):
    with log.together():
        told.logger.info("one")
        with log.together():
            told.logger.info("two")
        assert not told.text
    assert [line["msg"] for line in told.lines] == ["one", "two"]


@given(st.lists(st.builds("{}\n".format, st.integers(0, PIPE_BUF).map("é".__mul__)), max_size=9))
def test_no_more_is_written_at_once_than_a_pipe_takes_but_for_a_longer_line(lines):
    pieces = [*log.pieces(lines)]
    assert "".join(pieces) == "".join(lines)
    for piece in pieces:
        assert len(piece.encode(errors="replace")) <= PIPE_BUF or piece in lines


def test_lines_of_two_processes_in_one_pipe_stay_whole():
    """Also where they are read so slowly that each has to wait for room."""
    code = (
        "import logging; from cronjob.lib import log; own = logging.Logger('x');"
        "own.addHandler(log.Lines());\n"
        "for _ in range(20):\n"
        "    with log.together():\n"
        "        for _ in range(200): own.warning('x' * 400)"
    )
    reader, writer = os.pipe()
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=writer) for _ in range(2)]
    os.close(writer)
    with open(reader, "rb", buffering=0) as told:
        lines = b"".join(iter(partial(told.read, 500), b"")).decode().splitlines()
    assert [process.wait() for process in both] == [0, 0]
    assert {*lines} == {"x" * 400}
    assert len(lines) == 2 * 20 * 200
