"""Tables of the documents that come from records of studies: written anew, or checked.

    python studies/doc_tables.py              # in every page of docs/
    python studies/doc_tables.py --check      # say which pages differ from the records, and write nothing

In a page, a table of a study stands between two comments, the first of which names the study and its records:

    <!-- table: studies/mazes.toml studies/results/mazes.jsonl -->
    <!-- end of table -->

It is the main table of `stacq study FILE --records RECORDS`, with an empty cell for whatever has no record
and a sentence in place of rows that would be empty.
"""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from stacq.study.cells import cells_of
from stacq.study.markdown import main_table
from stacq.study.plan import read_study
from stacq.study.records import read_records
from stacq.study.tables import contents_of, recorded

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- table: (\S+) (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def table(study: str, records: str) -> str:
    """The main table of a study, from a file of records; a record that fits no cell is an error."""
    chosen, found = read_study(str(ROOT / study)), read_records(ROOT / records)
    cells = cells_of(chosen)
    shown, missing = recorded(cells, found)
    if len(shown) < len(found):
        strange = {(record["dataset"], record["method"]) for record in found if record not in shown}
        raise SystemExit(f"{records}: {study} has no cell for {sorted(strange)}")
    contents = contents_of(chosen, cells, shown, missing)
    there = {record["dataset"] for record in found}
    contents = replace(contents, datasets=[each for each in contents.datasets if each in there])
    never = [each.label for each in chosen.sources if each.label not in there]
    after = f"\nNot run: {'; '.join(never)}.\n" if never else ""
    return "".join(f"{line}\n" for line in main_table(contents)) + after


def made(found: re.Match[str]) -> str:
    """A place of a page, filled."""
    return f"{found[1]}\n{table(found[2], found[3])}\n{found[4]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="by default those of docs/")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page differs")
    chosen = parser.parse_args()
    differ, held = [], 0
    for page in chosen.pages or sorted((ROOT / "docs").rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        after, count = BLOCK.subn(made, before)
        held += count
        if after != before:
            differ.append(page.name)
            if not chosen.check:
                page.write_text(after, encoding="utf-8")
    told = "differ from the records" if chosen.check else "written"
    print(f"tables: {held}; {told}: {', '.join(differ) or 'none'}")
    sys.exit(1 if chosen.check and differ else 0)


if __name__ == "__main__":
    main()
