"""The bundle's programs, run within their time."""

import json
import os
import signal
import subprocess
import time


class Missing(Exception):
    """Something that this machine or this version has not; named, and not a failure."""


class Stopped(Exception):
    """A part's time was up."""


class Failed(Exception):
    """A program or a test did wrong."""


class Bundle:
    """Where things lie, what time is left, and the report so far."""

    def __init__(self, root, scratch, quick, limit):
        self.root, self.scratch, self.quick, self.limit = root, scratch, quick, limit
        self.end = time.monotonic() + limit
        self.part_end = self.end
        self.manifest = json.loads((root / "manifest.json").read_text())
        self.libtorch = None
        self.report = {"parts": [], "tests": [], "nvjpeg": [], "loader": [], "training": []}

    def program(self, name):
        return str(self.root / "bin" / name)

    def grant(self, budget):
        """Gives the next part its time; whether there is any left."""
        now = time.monotonic()
        self.part_end = min(now + budget, self.end)
        return self.end > now

    def environment(self, soft=False, libtorch=False, **more):
        """For programs on the real driver, with the bundle's nvJPEG, or on the software driver."""
        home = self.root / "soft" if soft else self.root
        libraries = [str(home)] if soft else [str(home / "lib")]
        if libtorch and self.libtorch:
            libraries.insert(0, self.libtorch)
        libraries += filter(None, [os.environ.get("LD_LIBRARY_PATH")])
        own = {
            "LD_LIBRARY_PATH": ":".join(libraries),
            "CUDA_HOME": str(home),
            "FOREBAY_SHARED": str(self.root / "shared"),
        }
        # Programs of the bundle are not cargo's, whatever started this.
        inherited = {k: v for k, v in os.environ.items() if k not in ("CARGO", "LIBTORCH")}
        return {**inherited, **own, **more}

    def start(self, command, environment=None, merged=False):
        """Runs a program to its end or that of the part's time, whichever comes first.

        Returns its status (None where it was stopped), standard output and standard error; `merged`
        puts the second into the first.
        """
        process = subprocess.Popen(
            [str(word) for word in command],
            env=environment or self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            cwd=self.scratch,
            text=True,
            errors="replace",
            start_new_session=True,  # so that its children end with it
        )
        status = None
        try:
            out, err = process.communicate(timeout=max(self.part_end - time.monotonic(), 0.1))
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return status, out, err or ""

    def call(self, command, environment=None):
        """Runs a program that has to succeed, and gives its standard output."""
        status, out, err = self.start(command, environment)
        name = " ".join(str(word).rsplit("/", 1)[-1] for word in command[:2])
        if status is None:
            raise Stopped(f"{name} ran out of time")
        if status != 0:
            raise Failed(f"{name}: {ended(status)}: {last_line(err or out)}")
        return out


def ended(status):
    """A status in words."""
    if status < 0:
        return f"ended by signal {-status} ({signal.Signals(-status).name})"
    return f"exit status {status}"


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
