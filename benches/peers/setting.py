"""The programs and the data that contenders get. Each is made when a row first asks for it."""
import json
import os
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from record import ROOT
from side import steps

# Files of the part that is augmented in memory; squares are drawn; photos are listed so many times.
SMALL, SQUARES, TIMES = 2000, 100, 20


class Setting:
    def __init__(self, args, scratch):
        self.args, self.scratch, self.threads = args, scratch, args.threads
        self.forebay = ROOT / "target/release/forebay"
        self.python = sys.executable

    def side(self, name):
        """The start of a command that runs a peer's side."""
        return [self.python, "-B", Path(__file__).parent / "side" / f"{name}.py"]

    @cached_property
    def alone(self):
        """The program of benches/alone."""
        command = ["cargo", "build", "--release", "--features", self.args.features, "--bench", "alone",
                   "--message-format=json-render-diagnostics"]
        lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        messages = map(json.loads, lines.splitlines())
        built = (m for m in messages if m.get("executable") and m["target"]["name"] == "alone")
        return next(built)["executable"]

    @cached_property
    def course(self):
        """The files of the course: all that the data directory lists, or --samples of them."""
        data = self.args.data
        data = data / "train" if (data / "train/labels.txt").exists() else data
        if self.args.samples:
            data = self._copied(data, "course", steps.listed(data)[: self.args.samples])
        return self._warm(data)

    @cached_property
    def small(self):
        """Some of them."""
        return self._copied(self.course, "small", steps.listed(self.course)[:SMALL])

    @cached_property
    def packed(self):
        """All of them in tar shards."""
        folder = self.scratch / "packed"
        self.call(self.forebay, "pack", "--data", self.course, "--to", folder)
        return self._warm(folder)

    @cached_property
    def squares(self):
        """Drawn pictures of 224x224."""
        folder = self.scratch / "squares"
        self.call(self.forebay, "export", "shapes", "--to", folder, "--size", steps.SIDE,
                  "--train", SQUARES, "--valid", 1)
        return folder / "train"

    @cached_property
    def photos(self):
        """Photos, each listed many times, so that an epoch is longer than a start."""
        items = steps.listed(self.args.photos)
        return self._warm(self._copied(self.args.photos, "photos", items, TIMES))

    @cached_property
    def even_photos(self):
        """Those in whose middle the checked window lies to a pixel."""
        import cv2

        def even(item):
            image = cv2.imread(str(self.args.photos / item[0]))
            return image is not None and image.shape[:2] == steps.PHOTO

        items = [item for item in steps.listed(self.args.photos) if even(item)]
        return self._copied(self.args.photos, "even", items[: steps.CHECKED])

    @cached_property
    def course_fixed(self):
        return self._written("course.toml", steps.COURSE)

    @cached_property
    def photos_fixed(self):
        return self._written("photos.toml", steps.PHOTOS)

    def call(self, *command):
        """Runs a command; what it printed."""
        command = [str(word) for word in command]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"bench-peers: {' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def _written(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        return path

    def _copied(self, data, name, items, times=1):
        """A folder with the files of `items`, listed so many times."""
        folder = self.scratch / name
        for file, _ in items:
            to = folder / file
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / file, to)
        lines = "".join(f"{file} {label}\n" for file, label in items)
        (folder / "labels.txt").write_text(lines * times)
        return folder

    def _warm(self, folder):
        for path in folder.rglob("*"):
            if path.is_file():
                path.read_bytes()
        return folder


def photos():
    """Where photos are by default, if they are."""
    shared = Path(os.environ.get("FOREBAY_SHARED") or ROOT.parent / "shared")
    folder = shared / "data" / "photos"
    return folder if (folder / "labels.txt").exists() else None
