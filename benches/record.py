"""What comparisons write: rows that outlive a broken run, and tables between markers in README.md."""
import csv
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def read_rows(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path, fields, rows):
    temporary = path.with_suffix(".partial")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    temporary.rename(path)


def put_between(mark, text):
    """Puts `text` into README.md between <!-- mark --> and <!-- /mark -->, where they are."""
    readme = ROOT / "README.md"
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    head, found, rest = readme.read_text().partition(start)
    if found:
        _, _, tail = rest.partition(end)
        readme.write_text(f"{head}{start}\n{text}{end}{tail}")


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()
