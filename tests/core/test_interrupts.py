"""Stops that wait for a good moment, and those that do not."""

import signal
import threading

import pytest

from stacq.core.interrupts import Terminated, held_back, terminate_as_interrupt

SIGNALS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]


@pytest.mark.parametrize(("number", "raised"), SIGNALS)
def test_a_stop_waits_until_it_is_delivered(number: signal.Signals, raised: type[BaseException]) -> None:
    done = []
    with terminate_as_interrupt():
        before = signal.getsignal(number)
        with pytest.raises(raised) as caught, held_back() as held:
            held.deliver()
            done.append(held.asked)
            signal.raise_signal(number)
            done.append(held.asked)
            held.deliver()
            done.append(False)
        assert caught.type is raised and done == [False, True]
        assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "raised"), SIGNALS)
def test_the_second_one_does_not_wait(number: signal.Signals, raised: type[BaseException]) -> None:
    with terminate_as_interrupt(), pytest.raises(raised), held_back():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(number)
        pytest.fail("it was held back")


def test_one_that_nobody_delivers_comes_at_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)
        done.append("whole")
    assert done == ["whole"]


def test_an_error_on_the_way_is_not_hidden_by_the_stop() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="worse"), held_back():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("worse")
    assert signal.getsignal(signal.SIGINT) is before


def test_what_python_does_not_handle_is_left_alone() -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with held_back():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_hold_nothing_back() -> None:
    before, found = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with held_back() as held:
            found.append((held.asked, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]
