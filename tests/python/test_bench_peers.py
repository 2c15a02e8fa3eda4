"""What `make bench-peers` makes of its measurements: ratios by round, goals, bars."""
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

BENCHES = Path(__file__).resolve().parents[2] / "benches"
sys.path[:0] = [str(BENCHES), str(BENCHES / "peers")]

import record
import rows
from chart import chart
from table import number, ratios, table


def measured(row, rates):
    """Lines of raw.csv, a list of rates a contender."""
    return [
        {"row": row.key, "round": str(n), "contender": contender, "images_per_s": str(rate)}
        for contender, each in rates.items() for n, rate in enumerate(each)
    ]


def test_ratios_are_taken_round_by_round():
    row = next(row for row in rows.ROWS if row.key == "loader")
    # Twice as fast in each round, on a machine that was slower in the second.
    lines = measured(row, {"forebay": [80_000, 8_000, 60_000], "torch": [4_000, 400, 3_000, 9_999]})
    assert ratios(lines, row, "forebay", "torch") == [20, 20, 20]
    last = table([row], lines).splitlines()[-1]
    assert last.endswith("| 20.00 (20.00 to 20.00) | 18: met; 30: not met |")
    assert "60,000 (8,000 to 80,000)" in last


def test_a_rate_is_told_once():
    course, loader = (next(row for row in rows.ROWS if row.key == key) for key in ("course", "loader"))
    lines = measured(course, {"forebay": [80], "packed": [90], "dali": [10]})
    lines += measured(loader, {"forebay": [60], "torch": [4]})
    cells = [line.split(" | ") for line in table([course, loader], lines).splitlines()[2:]]
    assert [cell[2] for cell in cells] == ["80 (80 to 80)", "90 (90 to 90)", "as above"]
    assert [cell[5][:5] for cell in cells] == ["8.00 ", "9.00 ", "15.00"]


def test_numbers_have_the_digits_that_count():
    assert [number(n) for n in (118_234, 5_678, 612.4, 7.6)] == ["118,000", "5,680", "612", "8"]


def test_rows_name_what_they_run():
    setting = SimpleNamespace(side=lambda name: [name], threads=2, forebay="forebay", alone="alone", course="C",
                              small="S", squares="Q", packed="P", photos="F")
    for row in rows.ROWS:
        keys = {contender.key for contender in row.contenders}
        assert {key for over, under, _ in row.ratios for key in (over, under)} <= keys
        for contender in row.contenders:
            assert "7" in map(str, contender.command(setting, 7))


def test_the_chart_is_xml_with_a_bar_each():
    row = rows.ROWS[0]
    lines = measured(row, {contender.key: [1, 2, 4] for contender in row.contenders})
    root = ElementTree.fromstring(chart([row], lines))
    bars = [element for element in root if element.tag.endswith("rect")]
    assert [float(bar.get("width")) for bar in bars] == [210.0] * len(row.contenders)


def test_tables_go_between_their_markers(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "ROOT", tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- t -->\nold\n<!-- /t -->\nb\n")
    record.put_between("t", "new\n")
    assert readme.read_text() == "a\n<!-- t -->\nnew\n<!-- /t -->\nb\n"
    record.put_between("none", "new\n")
    assert readme.read_text() == "a\n<!-- t -->\nnew\n<!-- /t -->\nb\n"
