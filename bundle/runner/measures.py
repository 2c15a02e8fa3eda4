"""What is measured: decoders, kernels, loader and trainer."""

import json
import re
from collections import Counter
from operator import sub
from pathlib import Path

from process import Failed, Missing, last_line

BATCH = 256
# How the pictures that decoders are compared on are stored: quality, chroma.
STORED = [(quality, chroma) for quality in (75, 95) for chroma in ("420", "422", "444")]


def export(bundle):
    """Draws the data sets that the parts below read."""
    # What one core draws of the larger pictures in some seconds.
    cores = bundle.report["machine"]["cores"]
    small, large = (512, 128) if bundle.quick else (20_000, min(500 * cores, 4_000))
    for size, train in ((32, small), (224, large)):
        shapes(bundle, size, train=train, valid=max(train // 10, 64))


def shapes(bundle, size, train, valid, *options):
    """Draws shapes and gives their folder."""
    folder = bundle.scratch / "-".join(["shapes", str(size), *options]).replace("--", "")
    bundle.call([bundle.program("forebay"), "export", "shapes", "--to", folder, "--train", train,
                 "--valid", valid, "--size", size, *options])
    return folder


def data(bundle, size):
    """A data set of `export`."""
    folder = bundle.scratch / f"shapes-{size}"
    if not (folder / "valid" / "labels.txt").exists():
        raise Missing(f"the data set of {size} pixels was not drawn")
    return folder


def nvjpeg(bundle):
    """Pixels of the same files by nvJPEG and by the CPU decoder."""
    count = 8 if bundle.quick else 48
    pipeline = bundle.root / "pipelines" / "pixels.toml"
    for quality, chroma in STORED:
        folder = shapes(bundle, 224, count, 1, "--quality", str(quality), "--subsampling", chroma)
        pixels = []
        for device in ("cpu", "cuda:0"):
            out = folder / device.replace(":", "")
            bundle.call([bundle.program("forebay"), "dump", "--data", folder / "train",
                         "--pipeline", pipeline, "--device", device, "--batch-size", count,
                         "--out", out])
            pixels.append((out / "images_000.npy").read_bytes())
        row = {"images": f"{count} drawn, 224x224, quality {quality}, {chroma}"}
        bundle.report["nvjpeg"].append({**row, **difference(*pixels)})


def difference(one, other):
    """How far two .npy files of u8 are apart, in levels of 255."""
    start = 10 + int.from_bytes(one[8:10], "little")
    if one[:start] != other[:start] or len(one) != len(other):
        raise ValueError("the two decoders gave arrays of different shapes")
    counts = Counter()
    for change, n in Counter(map(sub, one[start:], other[start:])).items():
        counts[abs(change)] += n
    values = len(one) - start
    return {
        "largest": max(counts),
        "mean": round(sum(change * n for change, n in counts.items()) / values, 5),
        "differ": round(1 - counts[0] / values, 5),
        "values": values,
    }


def kernels(bundle):
    """Times of `resolve`, `augment` and our JPEG decoder, of copies of as many bytes, and of nvJPEG and the CPU
    on the same JPEGs."""
    words = ["--quick"] if bundle.quick else []
    bundle.report["kernels"] = json.loads(bundle.call([bundle.program("gpu"), *words]))


def loader_on_gpu(bundle):
    loader(bundle, "cuda:0")


def loader_on_cpu(bundle):
    """The same, and whether its bytes are those of the GPU: all of them, where nvJPEG is not used."""
    loader(bundle, "cpu")
    digests = {}
    for run in bundle.report["loader"]:
        # Pictures of 32 pixels a side are too small for nvJPEG.
        if run["decoder"] == "exact" or run["size"] == 32:
            digests.setdefault((run["size"], run["decoder"]), set()).add(run["digest"])
    other = [f"{size} pixels" for (size, _), found in digests.items() if len(found) > 1]
    if other:
        raise Failed(f"batches on cuda:0 and on the CPU have other bytes: {', '.join(other)}")


def loader(bundle, device):
    """Images a second from files to batches, epoch by epoch, and the digest of their bytes."""
    course = (bundle.root / "pipelines" / "cifar10-train.toml").read_text()
    mixed = re.sub(r'(\[decoder\]\n)device = "\w+"\n', r'\1device = "mixed"\n', course)
    exact = mixed.replace("[decoder]\n", "[decoder]\nexact = true\n")
    if exact == course or "exact" not in exact:
        raise ValueError("pipelines/cifar10-train.toml has no [decoder] table any more")
    for size, name, text in ((32, "mixed", mixed), (224, "mixed", mixed), (224, "exact", exact)):
        pipeline = bundle.scratch / f"{name}.toml"
        pipeline.write_text(text)
        out = bundle.call([bundle.program("forebay"), "bench", "--data", data(bundle, size) / "train",
                           "--pipeline", pipeline, "--device", device, "--batch-size", BATCH,
                           "--epochs", 2 if bundle.quick else 4, "--json"])
        row = {"device": device, "size": size, "decoder": name}
        bundle.report["loader"].append({**row, **json.loads(out), "device": device})


def calibration(bundle):
    """`decoder.split` for this machine."""
    if bundle.quick:
        raise Missing("it takes too long for a quick run")
    command = [bundle.program("forebay"), "bench", "--calibrate", "--device", "cuda:0"]
    bundle.report["calibration"] = bundle.call(command).splitlines()


def trainer(bundle):
    """Epoch times of the trainer, and how long it waited for data."""
    if not Path(bundle.program("forebay-train")).exists():
        raise Missing("the bundle was made without the trainer")
    if not bundle.libtorch:
        raise Missing("PyTorch 2.11.0 is not in this machine's python3")
    environment = bundle.environment(libtorch=True)
    status, out, err = bundle.start([bundle.program("forebay-train"), "--help"], environment)
    if status != 0:
        torch, why = bundle.report["machine"]["torch"]["version"], last_line(err or out)
        kind = Failed if torch.startswith("2.11.0") else Missing
        raise kind(f"the trainer needs PyTorch 2.11.0, and does not start with {torch}: {why}")
    small, large = (32, 512), (224, 128)
    runs = [(*shape, precision) for shape in ([small] if bundle.quick else [small, large])
            for precision in ("32", "16-mixed", "bf16-mixed")]
    for size, batch, precision in runs:
        out = bundle.call(
            [bundle.program("forebay"), "train", "--data", data(bundle, size), "--device", "cuda:0",
             "--epochs", 2, "--batch-size", batch, "--precision", precision,
             "--out", bundle.scratch / f"run-{size}-{precision}",
             *(["--limit-train", "512"] if bundle.quick else [])],
            environment,
        )
        epochs = [dict(re.findall(r"(\w+)=(\S+)", line))
                  for line in out.splitlines() if line.startswith("epoch ")]
        if not epochs:
            raise ValueError(f"the trainer printed no epoch: {last_line(out)}")
        for number, epoch in enumerate(epochs, 1):
            epoch = {key: float(value) for key, value in epoch.items()}
            row = {"size": size, "precision": precision, "batch_size": batch, "epoch": number}
            bundle.report["training"].append({**row, **epoch})
