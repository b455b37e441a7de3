"""Numbers and words as reports write them."""

import io

import pytest
from rich.console import Console

from stacq.report.tables import fact_table, number, number_table, plural, print_parts, rows_shown, warning_list


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0, 4, "0"),
        (-3.0, 4, "-3"),
        (123456, 4, "123,456"),
        (1234.56, 4, "1,235"),
        (0.0012345, 4, "0.001234"),
        (0.00012345, 4, "1.23e-04"),
        (0.00012345, 3, "1.2e-04"),
        (1e6, 4, "1.00e+06"),
        (-2.71828, 3, "-2.72"),
    ],
)
def test_numbers_keep_the_digits_that_matter(value: float, digits: int, text: str) -> None:
    assert number(value, digits) == text


def test_words() -> None:
    assert [plural(count, "row") for count in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [rows_shown(count) for count in (1, 30, 31, 400)] == [1, 30, 25, 25]


def test_parts_are_printed_with_a_line_between() -> None:
    numbers, facts = number_table("name", "low", "high"), fact_table()
    numbers.add_row("a", "1", "20")
    facts.add_row("ends", "none")
    file = io.StringIO()
    print_parts((numbers, facts, warning_list(["look [here]"])), Console(file=file, width=40))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert lines == [
        "name  low  high",
        "─" * 15,
        "a       1    20",
        "",
        "ends  none",
        "",
        "! look [here]",
        "",
    ]
