"""The device tests, wherever they run."""

import os
import re
import shutil

from process import Failed, Missing, Stopped, ended, last_line

# Outcomes of a test that make the exit status 1.
BAD = ("FAILED", "stopped", "died")

LINE = re.compile(r"^(\S+) (\w+) \.\.\. (ok|FAILED) \((\d+\.\d+) s\)$")
NVJPEG = re.compile(r"^\s+(.+): nvJPEG differs by (\d+) at most, ([\d.]+) on average$")
COUNTS = re.compile(r"^\s+(\d+) by the engine, (\d+) one by one, (\d+) again on the CPU$")
KEPT = 20  # lines of what a failed test printed


def on_gpu(bundle):
    # The same settings as make test-gpu has.
    run(bundle, "cuda:0", bundle.environment(FOREBAY_REQUIRE_GPU="1"))


def on_cpu(bundle):
    run(bundle, "cpu", bundle.environment(FOREBAY_GRAPHS="20" if bundle.quick else "150"))


def on_soft(bundle):
    """Shows that the software driver, which the tests without a GPU rest on, runs here too: a few
    seeds of the thousands that `make test` has."""
    few = {"FOREBAY_SEEDS": "6", "FOREBAY_GRAPHS": "5"}
    more = {"FOREBAY_SEEDS": "60", "FOREBAY_GRAPHS": "50"}
    environment = bundle.environment(soft=True, **(few if bundle.quick else more))
    run(bundle, "soft", environment, "batch" if bundle.quick else None)


def random_graphs(bundle):
    graphs = 100 if bundle.quick else 2000
    bundle.report["graphs"] = {"graphs": graphs, "equal": False}
    run(bundle, "cuda:0", bundle.environment(FOREBAY_GRAPHS=str(graphs)), "random_graphs",
        label=f"random_graphs ({graphs})")
    bundle.report["graphs"]["equal"] = True


def run(bundle, device, environment, only=None, label=None):
    """Runs the tests on a device and adds their outcomes to the report."""
    command = [bundle.program("device"), "--device", device] + ([only] if only else [])
    status, out, _ = bundle.start(command, environment, merged=True)
    tests, since = [], []
    for line in out.splitlines():
        match = LINE.match(line)
        if not match:
            since.append(line)
            note(bundle, device, line)
            continue
        _, name, outcome, seconds = match.groups()
        test = {"device": device, "name": label or name, "outcome": outcome, "seconds": float(seconds)}
        skipped = [line for line in since if line.startswith("skipped:")]
        if outcome == "FAILED":
            test["said"] = since[-KEPT:]
        elif skipped:
            test["outcome"], test["said"] = "skipped", skipped
        tests.append(test)
        since = []
    whole = any(line.startswith(f"{device}: ") for line in since)
    if not whole:
        ran = label or next_of(bundle, [test["name"] for test in tests], only)
        outcome = "stopped" if status is None else "died"
        tests.append({"device": device, "name": ran, "outcome": outcome, "seconds": None,
                      "said": since[-KEPT:]})
    bundle.report["tests"] += tests
    if status is None:
        raise Stopped(f"{tests[-1]['name']} on {device} ran out of time")
    failed = [test["name"] for test in tests if test["outcome"] in BAD]
    if status != 0 or failed:
        raise Failed(f"{', '.join(failed) or 'device'}: {ended(status)}")


def note(bundle, device, line):
    """Figures that tests print of nvJPEG."""
    if device != "cuda:0":
        return
    if match := NVJPEG.match(line):
        what, largest, mean = match.groups()
        bundle.report["nvjpeg"].append(
            {"images": f"device test: {what}", "largest": int(largest), "mean": float(mean)})
    elif match := COUNTS.match(line):
        names = ("hardware", "single", "retried")
        bundle.report["nvjpeg_paths"] = dict(zip(names, map(int, match.groups())))


def next_of(bundle, done, only):
    """The test that was running: the one behind the last that came to its end."""
    _, out, _ = bundle.start([bundle.program("device"), "--list"] + ([only] if only else []))
    names = [line.split(":")[0] for line in out.splitlines() if line.endswith(": test")]
    left = [name for name in names if name not in done]
    return left[0] if left else "after the last test"


def sanitizer(bundle):
    """NVIDIA's memory checker over a test with images of many sizes."""
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    tool = next((place for place in places if place and os.path.exists(place)), None)
    if not tool:
        raise Missing("compute-sanitizer is not on this machine")
    command = [tool, "--tool", "memcheck", "--error-exitcode", "9", bundle.program("device"),
               "--device", "cuda:0", "images_of_many_sizes"]
    status, out, _ = bundle.start(command, merged=True)
    summary = re.search(r"ERROR SUMMARY: (\d+) error", out)
    errors = int(summary.group(1)) if summary else None
    bundle.report["sanitizer"] = {"errors": errors, "said": out.splitlines()[-KEPT:]}
    if status is None:
        raise Stopped("compute-sanitizer ran out of time")
    if "Device not supported" in out:
        raise Missing("compute-sanitizer does not support this machine's GPU")
    if status != 0 or errors:
        raise Failed(f"compute-sanitizer: {errors} errors, {ended(status)}: {last_line(out)}")
