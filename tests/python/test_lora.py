"""Adapters that forebay trained, beside PyTorch's own arithmetic, and merged by forebay."""

import torch
import torchvision
from conftest import forebay
from safetensors.torch import load_file
from test_resnet import draw
from torch.nn.functional import conv2d, linear


def beside(a, b):
    """A hook that adds to a layer's output what its adapter makes of its input."""

    def hook(layer, inputs, output):
        if isinstance(layer, torch.nn.Linear):
            return output + linear(linear(inputs[0], a), b)
        return output + conv2d(conv2d(inputs[0], a, None, layer.stride, layer.padding), b)

    return hook


def test_merged_weights_load_strictly_and_give_the_logits_of_the_adapted_network(tmp_path):
    draw(tmp_path / "data/train", 64)
    out, merged = tmp_path / "out", tmp_path / "merged.safetensors"
    command = ["train", "--data", tmp_path / "data", "--epochs", 1, "--batch-size", 16]
    forebay(*command, "--lora", 3, "--lr", 0.01, "--seed", 1, "--out", out)
    checkpoint = next(out.rglob("last.safetensors"))
    forebay("merge-lora", "--checkpoint", checkpoint, "--to", merged)

    plain = torchvision.models.resnet18(num_classes=4)
    plain.load_state_dict(load_file(merged), strict=True)

    state = {name: tensor for name, tensor in load_file(checkpoint).items() if "/" not in name}
    adapters = {name: state.pop(name) for name in list(state) if "lora_" in name}
    adapted = torchvision.models.resnet18(num_classes=4)
    adapted.load_state_dict(state, strict=True)
    layers = {name.rpartition(".")[0] for name in adapters}
    assert len(layers) in (20, 21)
    for name in layers:
        a, b = adapters[f"{name}.lora_a"], adapters[f"{name}.lora_b"]
        assert a.shape[0] == b.shape[1] == 3 and b.abs().max() > 0
        adapted.get_submodule(name).register_forward_hook(beside(a, b))

    torch.manual_seed(0)
    images = torch.randn(8, 3, 32, 32)
    with torch.no_grad():
        off = (plain.eval()(images) - adapted.eval()(images)).abs().max().item()
    assert off < 1e-5
