"""forebay's optimisers and loss scaler beside PyTorch's.

tests/data/optimizers.json holds a problem, what torch.optim makes of it under several options, and
how torch.amp.GradScaler moves. Here PyTorch is held to that file, and tests/train holds forebay to it.
`python tests/python/test_optimizer.py` writes it anew.
"""

import json
import math
from pathlib import Path

import numpy
import pytest
import torch

NUMBERS = Path(__file__).resolve().parents[2] / "tests/data/optimizers.json"
STEPS = 50
SHOWN = [1, 10, STEPS]  # Steps after which the parameters are kept.
ADAM = {"betas": [0.9, 0.999], "epsilon": 1e-8}


def options(algorithm, weight_decay=0.0, decay_norms_and_biases=True):
    return {
        "algorithm": algorithm,
        "weight_decay": weight_decay,
        "decay_norms_and_biases": decay_norms_and_biases,
    }


def sgd(momentum=0.0, nesterov=False):
    return {"name": "sgd", "momentum": momentum, "nesterov": nesterov}


# Name, options, and whether a schedule moves the momentum.
CASES = [
    ("sgd", options(sgd()), False),
    ("sgd, weight decay", options(sgd(), 0.02), False),
    ("momentum, weight decay", options(sgd(0.9), 0.02), False),
    ("nesterov, weights decay alone", options(sgd(0.9, True), 0.02, False), False),
    ("nesterov, one-cycle", options(sgd(0.9, True), 0.02), True),
    ("adam", options({"name": "adam", **ADAM}), False),
    ("adam, weight decay", options({"name": "adam", **ADAM}, 0.02), False),
    ("adam, one-cycle", options({"name": "adam", **ADAM}), True),
    ("adamw", options({"name": "adamw", **ADAM, "betas": [0.8, 0.99]}, 0.05), False),
    ("adamw, weights decay alone", options({"name": "adamw", **ADAM}, 0.05, False), False),
]


def problem():
    """A weight of a convolution and its bias, each value on a parabola of its own."""
    waves = [[math.sin(k * i + k) for i in range(26)] for k in (1, 2, 3)]
    return {
        "shape": [4, 3, 1, 2],
        "start": [round(x, 6) for x in waves[0]],
        "target": [round(2 * x, 6) for x in waves[1]],
        "curvature": [round(1 + x / 2, 6) for x in waves[2]],
        "rates": [round(0.05 * (1 - step / 60), 6) for step in range(STEPS)],
        "momenta": [round(0.9 + 0.05 * math.cos(step / 8), 6) for step in range(STEPS)],
    }


def optimizer(options, parameters, fused):
    algorithm = dict(options["algorithm"])
    name = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[algorithm.pop("name")]
    if "epsilon" in algorithm:
        algorithm["eps"] = algorithm.pop("epsilon")
    decayed, other = parameters, []
    if not options["decay_norms_and_biases"]:
        decayed, other = [p for p in parameters if p.dim() > 1], [p for p in parameters if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": options["weight_decay"]}]
    groups += [{"params": other, "weight_decay": 0.0}] if other else []
    return getattr(torch.optim, name)(groups, lr=0.1, fused=fused, **algorithm)


def steps(problem, options, cycle, fused):
    shape = problem["shape"]
    split = lambda name: torch.tensor(problem[name]).split([math.prod(shape), 2])
    fold = lambda x: x.view(shape).contiguous(memory_format=torch.channels_last)
    start, target, curvature = [
        (fold(weight), bias) for weight, bias in map(split, ("start", "target", "curvature"))
    ]
    parameters = [x.clone().requires_grad_() for x in start]
    update = optimizer(options, parameters, fused)
    shown = []
    for step in range(STEPS):
        for group in update.param_groups:
            group["lr"] = problem["rates"][step]
            if cycle and "betas" in group:
                group["betas"] = (problem["momenta"][step], group["betas"][1])
            elif cycle:
                group["momentum"] = problem["momenta"][step]
        terms = zip(parameters, target, curvature)
        loss = sum((c * (p - t) ** 2).sum() for p, t, c in terms) / 2
        update.zero_grad()
        loss.backward()
        update.step()
        if step + 1 in SHOWN:
            shown.append([x for p in parameters for x in p.detach().flatten().tolist()])
    return shown


def scales(batches, start, interval):
    """Gradients are the numbers of each step's batches."""
    scaler = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=interval)
    weight = torch.ones((), requires_grad=True)
    update = torch.optim.SGD([weight], lr=0.5)
    told = {"scales": [], "growth": [], "weights": []}
    for numbers in batches:
        update.zero_grad()
        for number in numbers:
            scaler.scale(weight * float(number) / len(numbers)).backward()
        scaler.unscale_(update)
        torch.nn.utils.clip_grad_norm_([weight], 0.25)
        scaler.step(update)
        scaler.update()
        told["scales"].append(scaler.get_scale())
        told["growth"].append(scaler.state_dict()["_growth_tracker"])
        told["weights"].append(weight.item())
    return told


def numbers():
    posed = problem()
    cases = [
        {"name": name, "options": chosen, "cycle": cycle, "shown": steps(posed, chosen, cycle, False)}
        for name, chosen, cycle in CASES
    ]
    inf, nan = "inf", "nan"
    batches = [[0.125], [0.5, 2.0], [-0.25], [1.0, inf], [0.25, -0.5], [nan, 1.0, 0.5], ["-inf"]]
    batches += [[x / 8, 0.5] for x in range(-4, 4)]
    scaler = {"start": 1024.0, "interval": 3, "batches": batches}
    scaler |= scales(batches, scaler["start"], scaler["interval"])
    return {**posed, "steps": SHOWN, "cases": cases, "scaler": scaler}


@pytest.mark.parametrize("fused", [False, True])
def test_torch_optim_gives_the_numbers_that_forebay_is_held_to(fused):
    file = json.loads(NUMBERS.read_text())
    for case in file["cases"]:
        got = steps(file, case["options"], case["cycle"], fused)
        numpy.testing.assert_allclose(got, case["shown"], rtol=0, atol=1e-6, err_msg=case["name"])


def test_the_grad_scaler_moves_as_forebay_is_held_to():
    expected = json.loads(NUMBERS.read_text())["scaler"]
    got = scales(expected["batches"], expected["start"], expected["interval"])
    assert got == {name: expected[name] for name in got}


if __name__ == "__main__":
    file = numbers()
    for case in file["cases"]:
        case["shown"] = [[round(x, 8) for x in values] for values in case["shown"]]
    NUMBERS.write_text(json.dumps(file) + "\n")
