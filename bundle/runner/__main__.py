"""Runs the bundle's parts one after another and writes the report."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import checks
import measures
import tests
from process import Bundle, Failed, Missing, Stopped
from table import table

# All parts together stay below this: 8 minutes, less what it takes to end.
LIMIT = 460
# The part's name, its budget in seconds, whether it needs a GPU, what it does. What matters most
# comes first, since the limit cuts from the end.
PARTS = [
    ("programs start", 30, False, checks.programs),
    ("device tests on cuda:0", 90, True, tests.on_gpu),
    ("random graphs, CPU = GPU", 60, True, tests.random_graphs),
    ("drawn data sets", 45, False, measures.export),
    ("nvJPEG against the CPU decoder", 40, True, measures.nvjpeg),
    ("kernels", 40, True, measures.kernels),
    ("loader on cuda:0", 40, True, measures.loader_on_gpu),
    ("loader on cpu", 40, False, measures.loader_on_cpu),
    ("trainer on cuda:0", 60, True, measures.trainer),
    ("calibration", 30, True, measures.calibration),
    ("compute-sanitizer", 60, True, tests.sanitizer),
    ("device tests on cpu", 60, False, tests.on_cpu),
    ("device tests on the software driver", 90, False, tests.on_soft),
]


def main():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for all parts")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    out = arguments.out or root
    out.mkdir(parents=True, exist_ok=True)
    # If this breaks off, no older report is taken for its own.
    for old in ("report.json", "report.md"):
        (out / old).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="forebay-bundle-") as scratch:
        bundle = Bundle(root, Path(scratch), arguments.quick, arguments.limit)
        report = run(bundle)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "report.md").write_text(table(report))
    print(f"{report['verdict']}\n{out / 'report.json'}\n{out / 'report.md'}")
    return report["exit_status"]


def run(bundle):
    """All parts; the report."""
    report = bundle.report
    report["date"] = time.strftime("%Y-%m-%d %H:%M:%S %z")
    report["quick"] = bundle.quick
    report["bundle"] = bundle.manifest
    report["machine"] = checks.machine(bundle)
    for line in checks.lines(report["machine"]):
        print(line, flush=True)
    gpu = report["machine"]["gpu"]
    for name, budget, needs_gpu, body in PARTS:
        start = time.monotonic()
        if needs_gpu and gpu is None:
            outcome, why = "no device", ""
        else:
            outcome, why = attempt(bundle, budget, body)
        seconds = round(time.monotonic() - start, 1)
        report["parts"].append({"name": name, "outcome": outcome, "seconds": seconds, "why": why})
        print(f"{name} ... {outcome} ({seconds} s)" + (f": {why}" if why else ""), flush=True)
    judge(report)
    return report


def attempt(bundle, budget, body):
    """Runs a part within its budget; its outcome and why."""
    if not bundle.grant(budget):
        return "not run", f"the limit of {bundle.limit:g} s was used up"
    try:
        body(bundle)
    except Missing as reason:
        return "missing", str(reason)
    except Stopped as reason:
        return "stopped", str(reason)
    except Failed as reason:
        return "failed", str(reason)
    except Exception as error:  # a fault of the runner's own must not cost the report
        return "failed", f"{type(error).__name__}: {error}"
    return "ok", ""


def judge(report):
    """The exit status and a sentence why."""
    bad = [p["name"] for p in report["parts"] if p["outcome"] == "failed"]
    bad += [f"{t['name']} on {t['device']}" for t in report["tests"] if t["outcome"] in tests.BAD]
    no_gpu = report["machine"]["gpu"] is None or checks.is_software(report["machine"]["gpu"])
    required = os.environ.get("FOREBAY_REQUIRE_GPU") == "1"
    if bad:
        verdict = "FAILED: " + ", ".join(bad)
    elif no_gpu and required:
        verdict = "FAILED: no device, though FOREBAY_REQUIRE_GPU=1"
    elif no_gpu:
        verdict = "no device: nothing was seen on a GPU; what needs none is green"
    else:
        verdict = "green"
    gaps = [p for p in report["parts"] if p["outcome"] in ("missing", "stopped", "not run")]
    verdict += "".join(f"; {part['name']}: {part['outcome']}" for part in gaps)
    # Nobody is to take the stand-in's word for a GPU's.
    if checks.is_software(report["machine"]["gpu"]):
        verdict = f"on the software driver, NOT on a GPU: {verdict}"
    report["verdict"] = verdict
    report["exit_status"] = int(bool(bad) or (no_gpu and required))


sys.exit(main())
