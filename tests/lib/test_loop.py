"""What a long-running command sleeps in."""

import os
import signal
import threading
import time

from cronjob.lib.loop import Loop

LONG = 30.0


def test_a_word_from_another_thread_ends_the_sleep():
    with Loop() as loop:
        threading.Timer(0.05, loop.wake).start()
        begun = time.monotonic()
        loop.wait(LONG)
        assert time.monotonic() - begun < LONG / 2
        assert loop.asked_to_stop == 0


def test_a_word_before_the_sleep_is_not_forgotten():
    with Loop() as loop:
        for _ in range(100_000):  # more than a pipe holds
            loop.wake()
        begun = time.monotonic()
        loop.wait(LONG)
        assert time.monotonic() - begun < LONG / 2


def test_without_a_word_it_sleeps_its_time():
    with Loop() as loop:
        loop.wake()
        loop.wait(LONG)
        begun = time.monotonic()
        loop.wait(0.05)
        assert time.monotonic() - begun >= 0.05


def test_signals_are_counted_and_end_the_sleep():
    before = signal.getsignal(signal.SIGTERM)
    with Loop() as loop:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        loop.wait(LONG)
        assert loop.asked_to_stop == 1
        os.kill(os.getpid(), signal.SIGINT)
        loop.wait(LONG)
        assert loop.asked_to_stop == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_waking_a_loop_that_has_ended_does_no_harm():
    with Loop() as loop:
        pass
    loop.bell.rung = False
    loop.wake()


def test_a_word_that_comes_while_another_is_heard_keeps_no_later_one_from_being_heard(monkeypatch):
    right = os.read

    def read(*what):
        loop.wake()
        return right(*what)

    with Loop() as loop:
        loop.wake()
        with monkeypatch.context() as patched:
            patched.setattr(os, "read", read)
            loop.wait(LONG)
        loop.wake()
        begun = time.monotonic()
        loop.wait(LONG)
        assert time.monotonic() - begun < LONG / 2
