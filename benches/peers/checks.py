"""That contenders do the same work, before it is timed: one batch with fixed values, side by side.

Each function gives sentences for the report, and ends the program where a bound does not hold. A level
is one of the 255 steps of a stored value.
"""
import json
import sys
from pathlib import Path

import numpy as np

from side import steps


def same(what, ours, theirs, std, equal, most):
    """Holds normalized images N x 3 x H x W to bounds: the share that is equal, and the furthest."""
    if ours.shape != theirs.shape:
        sys.exit(f"bench-peers: {what}: {ours.shape} here, {theirs.shape} there")
    off = np.abs(ours.astype(np.float64) - theirs) * 255 * np.reshape(std, (3, 1, 1))
    share, furthest = (off < 0.01).mean(), off.max()
    said = (f"{what}, {len(ours)} images: {share:.2%} of the values equal (at least {equal:.0%}), "
            f"{off.mean():.2f} levels off on average, none by more than {furthest:.2f} (at most {most})")
    if share < equal or furthest > most + 0.01:
        sys.exit(f"bench-peers: not the same work: {said}")
    return [said]


def dumped(setting, data, pipeline):
    """forebay's first batch, through a pipeline's file or one that is built in."""
    out = setting.scratch / f"dump-{data.name}-{Path(pipeline).stem}"
    setting.call(setting.forebay, "dump", "--data", data, "--pipeline", pipeline, "--out", out,
                 "--batch-size", steps.CHECKED, "--batches", 1, "--device", "cpu")
    return np.load(out / "images_000.npy")


def made(setting, side, work, data):
    """A peer's."""
    out = setting.scratch / f"{side}-{work}-{data.name}.npy"
    setting.call(*setting.side(side), work, data, "--out", out)
    return np.load(out)


def alone(setting, work, data, dtype, *options):
    """That of the program without a loader, as flat values."""
    out = setting.scratch / f"alone-{work}-{data.name}"
    setting.call(setting.alone, work, data, "--out", out, *options)
    return np.fromfile(out, dtype)


def digest(setting, data, *options):
    """Of two epochs, whatever the order."""
    command = [setting.forebay, "bench", "--json", "--device", "cpu", "--epochs", 2, "--data", data, *options]
    return json.loads(setting.call(*command))["digest"]


def same_digest(what, one, other):
    if one != other:
        sys.exit(f"bench-peers: {what}: not the same bytes")
    return [f"{what}: the same bytes in two epochs"]


def albumentations(what, ours, theirs):
    # It cuts fractions off where forebay rounds, and OpenCV places taps to a 32nd of a pixel.
    return same(what, ours, theirs, steps.STD, equal=0.7, most=8)


def course(setting):
    ours = dumped(setting, setting.small, setting.course_fixed)
    theirs = made(setting, "dali", "course", setting.small)
    packed = digest(setting, setting.packed)
    return [
        *same("the course's steps, forebay and DALI", ours, theirs, steps.STD, equal=0.99, most=2),
        *same_digest("packed shards and files", packed, digest(setting, setting.course)),
    ]


def loader(setting):
    ours = dumped(setting, setting.small, setting.course_fixed)
    theirs = made(setting, "torch_loader", "course", setting.small)
    return albumentations("the course's steps, forebay and albumentations", ours, theirs)


def limit(setting):
    ours = dumped(setting, setting.small, "decode-only").ravel()
    theirs = alone(setting, "decode", setting.small, np.uint8)
    if not np.array_equal(ours, theirs):
        sys.exit("bench-peers: decoding alone gives other pixels than forebay")
    return [f"decoded pixels, forebay and libjpeg-turbo alone, {steps.CHECKED} images: all equal"]


def augment(setting, data, what):
    theirs = made(setting, "in_memory", "course", data)
    ours = alone(setting, "augment", data, np.float32, "--pipeline", setting.course_fixed)
    return albumentations(what, ours.reshape(theirs.shape), theirs)


def augment_32(setting):
    return augment(setting, setting.small, "the steps alone at 32x32, forebay and albumentations")


def augment_224(setting):
    return augment(setting, setting.squares, "the steps alone at 224x224, forebay and albumentations")


def photos(setting, side, name, **bounds):
    ours = dumped(setting, setting.even_photos, setting.photos_fixed)
    theirs = made(setting, side, "photos", setting.even_photos)[: len(ours)]
    what = f"a window of photos, resized and mirrored, forebay and {name}"
    return same(what, ours, theirs, steps.PHOTO_STD, **bounds)


def photos_dali(setting):
    return photos(setting, "dali", "DALI", equal=0.95, most=1)


def photos_torchvision(setting):
    # Its weights are of 16 bits, and what lies between the two axes is rounded to bytes.
    return photos(setting, "torch_loader", "torchvision", equal=0.75, most=8)


def cache(setting):
    cached = digest(setting, setting.small, "--cache", "decoded")
    return same_digest("with decoded images in memory and without", cached, digest(setting, setting.small))


def threads(setting):
    one, two = (digest(setting, setting.small, "--threads", n) for n in (1, 2))
    return same_digest("one thread and two", one, two)
