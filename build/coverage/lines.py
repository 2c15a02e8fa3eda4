"""Tests built with counters, and the lines that they say ran."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from glob import glob
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def build(options, names, wrapper, environment):
    """Builds the tests `names` through `wrapper`; their programs."""
    tests = [word for name in names for word in ("--test", name)]
    command = ["cargo", "test", *options, *tests, "--no-run", "--message-format=json-render-diagnostics"]
    environment = {**os.environ, "RUSTC_WORKSPACE_WRAPPER": str(HERE / wrapper), **environment}
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    messages = map(json.loads, built.stdout.splitlines())
    return [message["executable"] for message in messages if message.get("executable")]


def llvm_tools():
    """The folder of rustc's llvm-cov; None where it is not installed."""
    found = glob(f"{output('rustc', '--print', 'sysroot')}/lib/rustlib/*/bin/llvm-cov")
    return Path(found[0]).parent if found else None


def rust_lines(tools, binaries, profiles, sources):
    """Lines of the files in `sources` and how often each ran, by the `profiles` that `binaries` left."""
    merged = Path(profiles[0]).with_name("profdata")
    subprocess.run([tools / "llvm-profdata", "merge", "-o", merged, *profiles], check=True)
    objects = [word for binary in binaries[1:] for word in ("-object", binary)]
    text = output(tools / "llvm-cov", "export", "-format=lcov", f"-instr-profile={merged}",
                  binaries[0], *objects)
    found = defaultdict(dict)
    file = None
    for line in text.splitlines():
        if line.startswith("SF:"):
            # Modules that a test includes by path have dots in theirs.
            file = os.path.relpath(line[3:], ROOT)
            wanted = any(file == source or file.startswith(f"{source}/") for source in sources)
        elif line.startswith("DA:") and wanted:
            number, count = map(int, line[3:].split(",")[:2])
            found[file][number] = max(found[file].get(number, 0), count)
    return found


def never_ran(file, lines):
    """The lines of `file` that did not run, each with its place and text."""
    text = (ROOT / file).read_text().splitlines()
    left = sorted(line for line, count in lines.items() if count == 0)
    return [f"{file}:{line}: {text[line - 1].strip()}" for line in left]
