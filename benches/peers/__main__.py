"""forebay beside what one would take instead, in turn, on the same files.

usage: python benches/peers DATA [--out DIR] [--photos DIR] [--rounds 5] [--only ROW,…] [--samples N] [--threads N]

First one batch with fixed values is held against forebay's, for each contender. Then come rounds; in a
round each row's contenders run one after the other, in an order that turns with the round. Each becomes a
line of OUT/raw.csv, written at once; what is there already is not done again, so that what was broken off
goes on. Then OUT/README.md and OUT/chart.svg are written and, where all rows were measured over all of
CIFAR-10, the table in README.md.
"""
import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import tempfile
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from record import ROOT, processor, put_between, read_rows, write_rows

import setting
from chart import chart
from clock import LONG, measured
from rows import ROWS
from side import steps
from table import ratios, table

FIELDS = ["row", "round", "contender", "epochs", "images", "short_seconds", "long_seconds",
          "images_per_s", "load"]
PEERS = ["nvidia-dali-cuda130", "torch", "torchvision", "albumentations", "opencv-python-headless", "numpy"]
# What all of CIFAR-10 has to learn from.
WHOLE = 50_000


def say(text):
    print(f"bench-peers: {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="benches/peers")
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--photos", type=Path, default=setting.photos())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda words: words.split(","), default=[row.key for row in ROWS])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--features", default="")
    args = parser.parse_args()
    unknown = set(args.only) - {row.key for row in ROWS}
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(row.key for row in ROWS)}")
    if args.out is None:
        args.out = ROOT / "benches/results" / f"{date.today()}-{slug(processor())}"
    args.out = args.out.resolve()
    return args


def slug(name):
    """`AMD EPYC 9R14 96-Core Processor` to `amd-epyc-9r14`."""
    name = re.sub(r"\(\w+\)|@.*|\d+-Core|\bCPU\b|\bProcessor\b", " ", name)
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def chosen(args):
    """The rows to measure, and sentences on those that cannot be."""
    wanted = [row for row in ROWS if row.key in args.only]
    rows = [row for row in wanted if args.photos or not row.needs_photos]
    without = [row.key for row in wanted if row not in rows]
    said = f"Without the rows {', '.join(without)}: no folder of photos is at hand (--photos DIR)."
    return rows, [said] if without else []


def same_settings(args, told):
    """Ends the program where OUT holds rows of another machine, program or choice."""
    path = args.out / "settings.json"
    if path.exists() and json.loads(path.read_text()) != told:
        sys.exit(f"bench-peers: {args.out} holds rows of other settings, programs or machine; "
                 "give another folder (--out)")
    path.write_text(json.dumps(told, indent=1) + "\n")


def settings(args, samples):
    forebay = hashlib.sha256((ROOT / "target/release/forebay").read_bytes()).hexdigest()
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": args.threads,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "peers": {name: importlib.metadata.version(name) for name in PEERS},
        "forebay": forebay[:16],
        "samples": samples,
    }


def measure(args, wanted, here, rows):
    """Fills `rows` with what is missing, round by round."""
    done = {(r["row"], r["round"], r["contender"]) for r in rows}
    for number in range(max(max(args.rounds, row.rounds) for row in wanted)):
        for row in wanted:
            if number >= max(args.rounds, row.rounds):
                continue
            turn = number % len(row.contenders)
            for contender in row.contenders[turn:] + row.contenders[:turn]:
                key = (row.key, str(number), contender.key)
                if key in done:
                    continue
                found = measured(contender, here)
                rows.append({"row": row.key, "round": str(number), "contender": contender.key, **found})
                write_rows(args.out / "raw.csv", FIELDS, rows)
                say(f"round {number} {row.key}: {contender.name}: {found['images_per_s']} images/s "
                    f"(load {found['load']})")


def hold(args, wanted, here):
    """Checks that the rows' contenders do the same work; sentences by row, with those of earlier runs."""
    path = args.out / "checks.json"
    said = json.loads(path.read_text()) if path.exists() else {}
    for row in wanted:
        said[row.key] = row.check(here)
        for sentence in said[row.key]:
            say(sentence)
    path.write_text(json.dumps(said, indent=1) + "\n")
    return said


def report(args, rows, told, checked, left_out):
    """OUT/README.md and OUT/chart.svg, and README.md's table where all of it was measured."""
    whole_rows = [row for row in ROWS if all(ratios(rows, row, *pair[:2]) for pair in row.ratios)]
    loads = [float(r["load"]) for r in rows]
    peers = ", ".join(f"{name} {version}" for name, version in told["peers"].items())
    rounds = [len({r["round"] for r in rows if r["row"] == row.key}) for row in whole_rows]
    said = (f"{told['samples']} JPEG files of 32x32 where no other images are named, page cache warm, batches of 256, "
            f"{told['threads']} threads or workers each where no number is named, {min(rounds)} to {max(rounds)} rounds, on {told['cores']} cores of {told['processor']}; load {min(loads):.1f} to "
            f"{max(loads):.1f} before the runs, that of other work in it. Rates are those between the ends of a "
            f"run of some epochs and of one of {LONG} times as many. \"Steps alone\" and \"decoding alone\" write each image to "
            f"the same place again where nothing else is said. {peers}. `make bench-peers`.")
    text = "\n\n".join([table(whole_rows, rows), said, *left_out]) + "\n"
    same = "\n".join(f"- {sentence}" for row in whole_rows for sentence in checked.get(row.key, []))
    own = (f"# forebay and its peers\n\n{text}\n![Images a second](chart.svg)\n\n"
           f"## The same work\n\nBefore the runs, one batch with fixed values:\n\n{same}\n")
    (args.out / "README.md").write_text(own)
    (args.out / "chart.svg").write_text(chart(whole_rows, rows))
    print(own)
    if whole_rows == list(ROWS) and told["samples"] == WHOLE and args.out.is_relative_to(ROOT):
        picture = f"![Images a second]({args.out.relative_to(ROOT)}/chart.svg)"
        put_between("bench-peers", f"{text}\n{picture}\n")


def main():
    args = arguments()
    wanted, left_out = chosen(args)
    for sentence in left_out:
        say(sentence)
    if not wanted:
        sys.exit("bench-peers: nothing to measure")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="forebay-peers-") as scratch:
        here = setting.Setting(args, Path(scratch))
        told = settings(args, len(steps.listed(here.course)))
        same_settings(args, told)
        say(f"{told['cores']} cores of {told['processor']}, load {os.getloadavg()[0]:.2f}, {told['peers']}")
        checked = hold(args, wanted, here)
        rows = read_rows(args.out / "raw.csv")
        measure(args, wanted, here, rows)
    report(args, rows, told, checked, left_out)


if __name__ == "__main__":
    main()
