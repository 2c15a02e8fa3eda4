"""Runs the built programs over small data sets made here. See `make test-python`."""
import pathlib
import subprocess

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).parents[2]


def forebay(*args):
    """Runs `forebay` and returns what it printed; a failure shows its words."""
    done = subprocess.run([ROOT / "target/release/forebay", *map(str, args)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def picture(rng, height, width):
    """A picture with gradients, edges and noise: u8, height x width x 3."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / rng.uniform(2, 9) + rng.uniform(0, 6)) + np.cos(y / rng.uniform(2, 9))
             for _ in range(3)]
    image = 128 + 50 * np.stack(waves, -1) + rng.normal(0, 8, (height, width, 3))
    image[height // 3: height // 2, width // 4: width // 2] = rng.integers(0, 256, 3)
    return image.clip(0, 255).astype(np.uint8)


def write_list(folder, names, labels=None):
    labels = labels or range(len(names))
    (folder / "labels.txt").write_text("".join(f"{n} {l % 10}\n" for n, l in zip(names, labels)))


def dump(data, out, pipeline, *args):
    """Batches of `forebay dump` as (images, labels, ids) arrays."""
    forebay("dump", "--data", data, "--pipeline", pipeline, "--out", out, *args)
    numbers = sorted(p.stem.split("_")[-1] for p in out.glob("images_*.npy"))
    return [[np.load(out / f"{name}_{n}.npy") for name in ("images", "labels", "ids")]
            for n in numbers]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def photos(tmp_path, rng):
    """A folder of 1,000 JPEG files of 32x32 with its list, as Pillow writes them."""
    folder = tmp_path / "photos"
    folder.mkdir()
    names = [f"{k}.jpg" for k in range(1000)]
    for k, name in enumerate(names):
        Image.fromarray(picture(rng, 32, 32)).save(folder / name, quality=60 + k % 40,
                                                   subsampling=k % 3)
    write_list(folder, names)
    return folder
