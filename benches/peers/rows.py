"""What is measured against what, and the goals."""
from collections.abc import Callable
from dataclasses import dataclass

import checks
from record import ROOT

PIPELINE = ROOT / "pipelines/cifar10-train.toml"


@dataclass(frozen=True)
class Contender:
    key: str
    name: str
    # Of the short run. The long one has five times as many, and the difference counts.
    epochs: int
    # From a setting and a number of epochs to a command, which prints JSON that says how many images.
    command: Callable


@dataclass(frozen=True)
class Row:
    key: str
    work: str
    contenders: tuple
    # Who, over whom, and what the ratio is meant to be, first and in the end; nothing where it is only told.
    ratios: tuple
    # Gives sentences on what was found the same; ends the program where something is not.
    check: Callable
    # At the least.
    rounds: int = 1

    @property
    def needs_photos(self):
        return self.key.startswith("photos")


def forebay(data, *options, threads=None):
    """Epochs of a pipeline over the folder that `data` names in a setting."""
    def command(setting, epochs):
        return [setting.forebay, "bench", "--json", "--no-digest", "--device", "cpu", "--data",
                getattr(setting, data), "--threads", threads or setting.threads, "--epochs", epochs, *options]
    return command


def alone(work, data, *options, threads=None):
    def command(setting, epochs):
        return [setting.alone, work, getattr(setting, data), "--threads", threads or setting.threads,
                "--epochs", epochs, *options]
    return command


def peer(side, work, data):
    def command(setting, epochs):
        return [*setting.side(side), work, getattr(setting, data), "--threads", setting.threads,
                "--epochs", epochs]
    return command


# Of batches of 256: those in flight, the one being handed over, and the one that is in use.
PLACES = (4 + 2) * 256
COURSE = "the course's pipeline, JPEG files of 32x32"
PHOTOS = "photos (a few, listed 20 times each): random resized crop to 224, flip, normalize"
IMAGENET = ("--pipeline", "imagenet-train")

ROWS = (
    Row("course", COURSE, (
        Contender("forebay", "forebay", 3, forebay("course")),
        Contender("packed", "forebay, from packed shards (the others: from files)", 3, forebay("packed")),
        Contender("dali", "DALI 2.4, CPU operators", 1, peer("dali", "course", "course")),
    ), (("forebay", "dali", (10, 16)), ("packed", "dali", (20,))), checks.course),
    Row("loader", COURSE, (
        Contender("forebay", "forebay", 3, forebay("course")),
        Contender("torch", "DataLoader, OpenCV, albumentations", 1, peer("torch_loader", "course", "course")),
    ), (("forebay", "torch", (18, 30)),), checks.loader),
    Row("limit", COURSE, (
        Contender("forebay", "forebay", 3, forebay("course")),
        Contender("alone", "reading and decoding alone with libjpeg-turbo, all cores", 3, alone("decode", "course")),
    ), (("forebay", "alone", (0.8,)),), checks.limit),
    Row("augment-32", "its steps alone, 2,000 images of 32x32 in memory, one thread", (
        Contender("forebay", "forebay", 50, alone("augment", "small", "--pipeline", PIPELINE, threads=1)),
        Contender("albumentations", "albumentations", 5, peer("in_memory", "course", "small")),
    ), (("forebay", "albumentations", (30,)),), checks.augment_32),
    Row("augment-224", "its steps alone, 100 images of 224x224 in memory, one thread", (
        Contender("forebay", "forebay", 60, alone("augment", "squares", "--pipeline", PIPELINE, threads=1)),
        Contender("albumentations", "albumentations", 15, peer("in_memory", "course", "squares")),
    ), (("forebay", "albumentations", (3,)),), checks.augment_224),
    Row("photos-dali", PHOTOS, (
        Contender("forebay", "forebay", 1, forebay("photos", *IMAGENET)),
        Contender("dali", "DALI 2.4, CPU operators", 1, peer("dali", "photos", "photos")),
    ), (("forebay", "dali", (1.6, 2)),), checks.photos_dali),
    Row("photos-torchvision", PHOTOS, (
        Contender("forebay", "forebay", 1, forebay("photos", *IMAGENET)),
        Contender("torch", "DataLoader, torchvision v2", 1, peer("torch_loader", "photos", "photos")),
    ), (("forebay", "torch", (2,)),), checks.photos_torchvision),
    Row("cache", "the course's pipeline, decoded images in memory, 32x32", (
        Contender("forebay", "forebay, --cache decoded", 10, forebay("course", "--cache", "decoded")),
        Contender("alone", "its steps alone, all cores, into as many places as the loader's batches have", 10,
                  alone("augment", "course", "--pipeline", PIPELINE, "--places", PLACES)),
        Contender("near", "its steps alone, all cores, each into one place that stays in its cache", 10,
                  alone("augment", "course", "--pipeline", PIPELINE)),
    ), (("forebay", "alone", (0.8,)), ("forebay", "near", ())), checks.cache),
    Row("threads", COURSE, (
        Contender("two", "forebay, two threads", 3, forebay("course", threads=2)),
        Contender("one", "forebay, one thread", 2, forebay("course", threads=1)),
    ), (("two", "one", (1.8,)),), checks.threads, rounds=9),
)
