"""What a run writes down, read by TensorBoard's own reader and by Python's csv."""

import csv
import io
import subprocess
import tomllib
from xml.etree import ElementTree

import numpy
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from conftest import ROOT
from test_resnet import draw

SCALARS = {"train/loss", "train/acc", "valid/loss", "valid/acc", "valid/top5", "lr", "images_per_s",
           "wait_share", "grad_norm", "peak_memory_mib"}


@pytest.fixture
def run(tmp_path):
    """The directory of a run of two epochs of four steps, read every second step."""
    draw(tmp_path / "data/train", 128)
    draw(tmp_path / "data/valid", 40)
    command = [ROOT / "target/release/forebay", "train", "--data", tmp_path / "data"]
    command += ["--epochs", "2", "--batch-size", "32", "--log-every", "2", "--seed", "5"]
    command += ["--out", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tmp_path / "out"


def test_tensorboard_and_csv_read_what_a_run_wrote(run):
    assert len(list(run.glob("events.out.tfevents.*"))) == 1
    events = EventAccumulator(str(run)).Reload()
    tags = events.Tags()
    assert SCALARS <= set(tags["scalars"])
    assert {"samples", "mistakes"} <= set(tags["images"])
    for tag in ["samples", "mistakes"]:
        for event in events.Images(tag):
            picture = Image.open(io.BytesIO(event.encoded_image_string))
            picture.load()
            assert picture.size == (event.width, event.height)
    [config] = events.Tensors("config")
    assert events.SummaryMetadata("config").plugin_data.plugin_name == "text"
    assert "batch_size" in config.tensor_proto.string_val[0].decode()
    assert tomllib.loads((run / "hparams.toml").read_text())["batch_size"] == 32
    assert Image.open(run / "confusion.png").convert("RGB").getcolors(1 << 20)[1:]
    assert ElementTree.parse(run / "curves.svg").getroot().tag.endswith("svg")

    rows = list(csv.DictReader((run / "metrics.csv").open()))
    # The last step of an epoch has a row of its own and then one of the whole epoch.
    steps, epochs = [[row for row in rows if bool(row["valid_loss"]) == whole]
                     for whole in (False, True)]
    for tag, column, rows in [("train/loss", "train_loss", steps), ("lr", "lr", steps),
                              ("grad_norm", "grad_norm", steps), ("valid/acc", "valid_acc", epochs),
                              ("valid/top5", "valid_top5", epochs),
                              ("train_epoch/loss", "train_loss", epochs)]:
        in_events = {event.step: event.value for event in events.Scalars(tag)}
        in_file = {int(row["step"]): float(row[column]) for row in rows}
        assert in_events.keys() == in_file.keys(), tag
        for step, value in in_events.items():
            # Events hold single precision.
            assert numpy.isclose(value, in_file[step], rtol=1e-6), (tag, step)
    assert [int(row["step"]) for row in steps] == [2, 4, 6, 8]
