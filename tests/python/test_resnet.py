"""forebay's ResNet-18 beside torchvision's.

tests/data/resnet18.json holds what torchvision makes of a seed: logits and losses. Here torchvision
is held to that file, and tests/train holds forebay to it. `python tests/python/test_resnet.py`
writes it anew. The other test trains with forebay and loads what it leaves into torchvision.
"""

import json
import subprocess
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from safetensors import safe_open
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "tests/data/resnet18.json"
MEAN = numpy.float32([0.4914, 0.4822, 0.4465])
STD = numpy.float32([0.2023, 0.1994, 0.2010])


def numbers():
    # As tests/train: sums are of other parts with more, and the last bits grow over the steps.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10).to(memory_format=torch.channels_last)
    images, labels = torch.randn(32, 3, 32, 32), torch.arange(32) % 10
    large = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        batch = model(images).flatten().tolist()
        model.eval()
        running, larger = (model(x).flatten().tolist() for x in (images, large))
    model.train()
    # Adam divides by the root of its second moment: with an epsilon of 1e-8 it turns the last bits of
    # gradients near zero into whole steps, and the curves of two machines part.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, eps=1e-3)
    losses = []
    for _ in range(20):
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {
        "batch_statistics": batch,
        "running_statistics": running,
        "running_statistics_224": larger,
        "losses": losses,
    }


BOUNDS = {
    # Over 32 samples of one pixel the division by the deviation magnifies the last bits.
    "batch_statistics": 1e-4,
    "running_statistics": 1e-5,
    "running_statistics_224": 1e-5,
    "losses": 1e-4,
}


def test_torchvision_gives_the_numbers_that_forebay_is_held_to():
    expected, got = json.loads(NUMBERS.read_text()), numbers()
    assert expected.keys() == got.keys()
    for name, bound in BOUNDS.items():
        numpy.testing.assert_allclose(got[name], expected[name], rtol=0, atol=bound, err_msg=name)


def draw(directory, count):
    """Noise with one bright stripe: its place is the label."""
    directory.mkdir(parents=True)
    random, lines = numpy.random.default_rng(7), []
    for i in range(count):
        pixels = random.integers(0, 120, (32, 32, 3), dtype=numpy.uint8)
        pixels[i % 4 * 8 :][:8] += 130
        Image.fromarray(pixels).save(directory / f"{i}.jpg", quality=90)
        lines.append(f"{i}.jpg {i % 4}\n")
    (directory / "labels.txt").write_text("".join(lines))


def test_a_checkpoint_is_a_torchvision_state_dict(tmp_path):
    draw(tmp_path / "data/train", 128)
    draw(tmp_path / "data/valid", 40)
    command = [ROOT / "target/release/forebay", "train", "--data", tmp_path / "data"]
    command += ["--epochs", "2", "--batch-size", "32", "--seed", "5", "--out", tmp_path / "out"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    last = [line for line in lines.splitlines() if line.startswith("epoch 2/2 ")][0]
    told = dict(word.split("=") for word in last.split() if "=" in word)

    last = tmp_path / "out/checkpoints/last.safetensors"
    with safe_open(last, "pt") as file:
        held = {name: file.get_tensor(name) for name in file.keys()}
        story = json.loads(file.metadata()["forebay"])
    assert (story["epoch"], story["samples"], story["global_step"]) == (2, 0, 8)
    identity = story["conditions"]["identities"]["train"]
    assert (identity["seed"], story["model"]["classes"]) == (5, 4)
    # Beside the weights, under names that no module has, lies what the run goes on with.
    state = {name: tensor for name, tensor in held.items() if "/" not in name}
    assert len(state) < len(held)
    model = torchvision.models.resnet18(num_classes=4)
    model.load_state_dict(state, strict=True)
    assert state["bn1.num_batches_tracked"] == 8

    pixels = [numpy.asarray(Image.open(tmp_path / f"data/valid/{i}.jpg")) for i in range(40)]
    images = (numpy.stack(pixels).astype("float32") / numpy.float32(255) - MEAN) / STD
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(images).permute(0, 3, 1, 2))
    labels = torch.arange(40) % 4
    assert abs(cross_entropy(logits, labels).item() - float(told["valid_loss"])) < 1e-4
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    assert abs(accuracy - float(told["valid_acc"])) < 1e-4


if __name__ == "__main__":
    rounded = {name: [round(x, 7) for x in values] for name, values in numbers().items()}
    NUMBERS.write_text(json.dumps(rounded) + "\n")
