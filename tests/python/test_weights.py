"""Weights that PyTorch saved, through forebay and back into torchvision."""

import json
import subprocess

import numpy
import pytest
import safetensors.torch
import torch
import torchvision
from torch.nn.functional import cross_entropy

from conftest import ROOT, dump, forebay
from test_resnet import draw


def export(checkpoint, to, *more):
    command = [ROOT / "target/release/forebay-train", "export-weights"]
    command += ["--checkpoint", checkpoint, "--to", to, *more]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


@pytest.fixture(scope="module")
def model():
    """A ResNet-18 for 10 classes whose statistics and counters are not those it starts with."""
    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=10)
    with torch.no_grad():
        model(torch.randn(4, 3, 32, 32))
    return model


SAVED = {
    "zip": lambda model, path: torch.save(model.state_dict(), path),
    "protocol 4": lambda model, path: torch.save(model.state_dict(), path, pickle_protocol=4),
    "protocol 5": lambda model, path: torch.save(model.state_dict(), path, pickle_protocol=5),
    "legacy": lambda model, path: torch.save(
        model.state_dict(), path, _use_new_zipfile_serialization=False),
    "legacy, protocol 4": lambda model, path: torch.save(
        model.state_dict(), path, _use_new_zipfile_serialization=False, pickle_protocol=4),
    "safetensors": lambda model, path: safetensors.torch.save_file(model.state_dict(), path),
    "f64": lambda model, path: torch.save(
        {name: tensor.double() for name, tensor in model.state_dict().items()}, path),
    "parameters": lambda model, path: torch.save(dict(model.named_parameters())
                                                 | dict(model.named_buffers()), path),
    "channels last": lambda model, path: torch.save(
        {name: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
         for name, tensor in model.state_dict().items()}, path),
    "wrapped with an optimiser": lambda model, path: torch.save({
        "epoch": 3, "best": 0.5, "arch": "resnet18", "state_dict": model.state_dict(),
        "optimizer": trained(model).state_dict()}, path),
    "Lightning": lambda model, path: torch.save({
        "epoch": 1, "pytorch-lightning_version": "2.5.0", "hyper_parameters": {"lr": 1e-3},
        "state_dict": {f"model.{name}": tensor for name, tensor in model.state_dict().items()},
        "callbacks": {}, "lr_schedulers": [], "loops": None}, path),
    "DataParallel": lambda model, path: torch.save(
        {"model": torch.nn.DataParallel(model).state_dict()}, path),
}


def trained(model):
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("how", SAVED)
def test_what_pytorch_saved_comes_back_equal(model, tmp_path, how):
    SAVED[how](model, tmp_path / "saved")
    done = export(tmp_path / "saved", tmp_path / "out.safetensors")
    assert done.returncode == 0, done.stderr
    assert "122 tensors, torchvision's resnet18(num_classes=10)" in done.stdout
    out = safetensors.torch.load_file(tmp_path / "out.safetensors")
    torchvision.models.resnet18(num_classes=10).load_state_dict(out, strict=True)
    for name, tensor in model.state_dict().items():
        assert out[name].dtype == tensor.dtype and torch.equal(out[name], tensor), name


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(model, tmp_path, kind):
    half = {name: tensor.to(kind) if tensor.is_floating_point() else tensor
            for name, tensor in model.state_dict().items()}
    torch.save(half, tmp_path / "half.pth")
    assert export(tmp_path / "half.pth", tmp_path / "out.safetensors").returncode == 0
    out = safetensors.torch.load_file(tmp_path / "out.safetensors")
    for name, tensor in half.items():
        wide = tensor.float() if tensor.is_floating_point() else tensor
        assert out[name].dtype == wide.dtype and torch.equal(out[name], wide), name


def test_what_is_no_plain_state_dict_is_refused(model, tmp_path):
    def complaint(saved, *more):
        torch.save(saved, tmp_path / "saved.pth")
        done = export(tmp_path / "saved.pth", tmp_path / "out.safetensors", *more)
        assert done.returncode == 1 and not (tmp_path / "out.safetensors").exists()
        return done.stderr

    assert "asks for torchvision.models.resnet.ResNet: it is not" in complaint(model)
    assert "it holds no state dict" in complaint([1, 2])
    assert "it holds no tensors" in complaint({"epoch": 1})
    state = model.state_dict()
    assert "lacks conv1.weight" in complaint({"fc.weight": state["fc.weight"]})
    missing = {name: tensor for name, tensor in state.items() if "layer4" not in name}
    assert "lacks layer4.0.bn1.bias, layer4.0.bn1.running_mean, " in complaint(missing)
    assert "does not have more.bias" in complaint(state | {"more.bias": torch.zeros(1)})
    wider = state | {"fc.weight": torch.zeros(10, 2048)}
    assert "its head is none of a ResNet-18's" in complaint(wider)


def test_a_file_is_replaced_only_where_asked(model, tmp_path):
    safetensors.torch.save_file(model.state_dict(), tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_text("before")
    done = export(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert done.returncode == 1 and "is there already; --force replaces it" in done.stderr
    assert (tmp_path / "b.safetensors").read_text() == "before"
    assert export(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--force").returncode == 0
    with safetensors.safe_open(tmp_path / "b.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]


def test_a_run_starts_from_pytorchs_weights(model, tmp_path):
    """With a learning rate of 0 all but the new head and the statistics stays what it was."""
    torch.save(model.state_dict(), tmp_path / "ten.pth")
    draw(tmp_path / "data/train", 32)
    command = [ROOT / "target/release/forebay", "train", "--data", tmp_path / "data/train"]
    command += ["--weights", tmp_path / "ten.pth", "--lr", "0", "--batch-size", "16"]
    command += ["--out", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "note: 120 tensors taken\n" in done.stderr
    assert "note: head left as drawn: the file's has 10 classes, this one 4\n" in done.stderr
    export(tmp_path / "out/checkpoints/last.safetensors", tmp_path / "four.safetensors")
    four = safetensors.torch.load_file(tmp_path / "four.safetensors")
    torchvision.models.resnet18(num_classes=4).load_state_dict(four, strict=True)
    for name, tensor in model.named_parameters():
        if not name.startswith("fc."):
            assert torch.equal(four[name], tensor), name
    assert four["bn1.num_batches_tracked"] == model.bn1.num_batches_tracked + 2


def test_eval_and_predict_say_what_torchvision_says(model, tmp_path):
    """Trained a little, so that answers differ from image to image."""
    torch.save(model.state_dict(), tmp_path / "ten.pth")
    draw(tmp_path / "data/train", 128)
    draw(tmp_path / "data/valid", 40)
    forebay("train", "--data", tmp_path / "data", "--weights", tmp_path / "ten.pth", "--classes", 10,
            "--batch-size", 16, "--out", tmp_path / "out")
    weights = tmp_path / "trained.safetensors"
    assert export(tmp_path / "out/checkpoints/last.safetensors", weights).returncode == 0
    trained = torchvision.models.resnet18(num_classes=10)
    trained.load_state_dict(safetensors.torch.load_file(weights), strict=True)
    [(images, labels, _)] = dump(tmp_path / "data/valid", tmp_path / "dumped", "cifar10-valid")
    with torch.no_grad():
        logits = trained.eval()(torch.from_numpy(images))
    labels, said = torch.from_numpy(labels), logits.argmax(1)

    scores = json.loads(forebay("eval", "--checkpoint", weights, "--data", tmp_path / "data", "--json",
                                "--confusion", tmp_path / "confusion.png"))
    assert (tmp_path / "confusion.png").stat().st_size > 0
    assert abs(scores["loss"] - cross_entropy(logits, labels).item()) < 1e-5
    assert scores["acc"] == (said == labels).double().mean().item()
    confusion = torch.zeros(10, 10, dtype=int)
    confusion.index_put_((labels, said), torch.tensor(1), accumulate=True)
    assert scores["confusion"] == confusion.tolist()

    files = [tmp_path / f"data/valid/{k}.jpg" for k in range(40)]
    told = forebay("predict", "--checkpoint", weights, "--top", 10, "--json", *files).splitlines()
    for line, path, shares in zip(told, files, logits.double().softmax(1), strict=True):
        answer = json.loads(line)
        assert answer["path"] == str(path)
        by_label = {one["label"]: one["p"] for one in answer["classes"]}
        assert list(by_label.values()) == sorted(by_label.values(), reverse=True)
        numpy.testing.assert_allclose([by_label[k] for k in range(10)], shares, rtol=0, atol=1e-5)
