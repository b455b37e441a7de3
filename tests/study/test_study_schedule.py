"""Which job comes next, and what a failure takes with it."""

from hypothesis import given
from hypothesis import strategies as st
from study_cases import chain, ran

from stacq.study.schedule import MOST_ATTEMPTS, Schedule


@given(st.data(), st.integers(1, 30))
def test_everything_is_done_once_and_nothing_before_what_it_needs(data: st.DataObject, count: int) -> None:
    needs = [data.draw(st.none() | st.integers(0, n - 1)) if n else None for n in range(count)]
    order = ran(Schedule(chain(*(None if need is None else str(need) for need in needs))))
    assert sorted(order, key=int) == [str(n) for n in range(count)]
    for number, need in enumerate(needs):
        assert need is None or order.index(str(need)) < order.index(str(number))


def test_jobs_come_in_the_order_of_the_file() -> None:
    assert ran(Schedule(chain(None, "0", None, "2"))) == ["0", "1", "2", "3"]


def test_a_failure_takes_what_waits_for_it_and_nothing_else() -> None:
    schedule = Schedule(chain(None, "0", "1", None))
    assert schedule.next().key == "0"  # type: ignore[union-attr]
    assert [job.key for job in schedule.fail("0", "broken")] == ["1", "2"]
    assert schedule.failed["0"] == "broken" and "left out" in schedule.failed["2"]
    assert ran(schedule) == ["3"] and schedule.over and schedule.done == {"3"}


def test_a_lost_job_is_tried_again_but_not_for_ever() -> None:
    schedule = Schedule(chain(None))
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert schedule.next() is not None and not schedule.over
        assert schedule.lose("0") == (attempt < MOST_ATTEMPTS)
    assert schedule.next() is None and schedule.over


def test_what_was_done_before_is_not_waited_for() -> None:
    assert ran(Schedule(chain("gone", "0"))) == ["0", "1"]
