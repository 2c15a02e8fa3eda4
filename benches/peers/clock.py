"""Whole processes, timed from outside."""
import json
import os
import subprocess
import sys
import time

# How many times the epochs of the short run the long one has.
LONG = 5


def images(answer):
    """How many images a process says that it went through."""
    if "images" in answer:
        return answer["images"]
    return answer["samples"] * len(answer["images_per_s"])


def process(command):
    """Seconds from start to end, and images."""
    command = [str(word) for word in command]
    # Else albumentations asks a server for its newest version at each start.
    environment = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1"}
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"bench-peers: {' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return seconds, images(json.loads(done.stdout.splitlines()[-1]))


def measured(contender, setting):
    """A line of raw.csv: images/s between the ends of a short and of a long run. Start, first batches and
    what was made ahead at the end are in both, and so in neither."""
    load = os.getloadavg()[0]
    short, few = process(contender.command(setting, contender.epochs))
    long, many = process(contender.command(setting, LONG * contender.epochs))
    if long <= short:
        sys.exit(f"bench-peers: {contender.name}: the long run was no longer than the short one")
    return {
        "epochs": contender.epochs,
        "images": many - few,
        "short_seconds": f"{short:.3f}",
        "long_seconds": f"{long:.3f}",
        "images_per_s": f"{(many - few) / (long - short):.1f}",
        "load": f"{load:.2f}",
    }
