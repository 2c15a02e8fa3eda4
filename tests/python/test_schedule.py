"""forebay's learning rates beside those of torch.optim.lr_scheduler.

tests/data/schedules.json holds plans and what PyTorch makes of them: rates by step, and for the
plateau by epoch. Here PyTorch is held to that file, and tests/train holds forebay to it.
`python tests/python/test_schedule.py` writes it anew.
"""

import json
import math
import warnings
from pathlib import Path

import numpy
import torch
from torch.optim import lr_scheduler as torch_schedules

NUMBERS = Path(__file__).resolve().parents[2] / "tests/data/schedules.json"


def plan(name, warmup_steps=0, total_steps=60, steps_per_epoch=5, base_lr=0.1, **kind):
    return {"kind": {"name": name, **kind}, "base_lr": base_lr, "warmup_steps": warmup_steps,
            "total_steps": total_steps, "steps_per_epoch": steps_per_epoch}


def onecycle(pct_start=0.3, div_factor=25.0, final_div_factor=1e4, **rest):
    return plan("onecycle", pct_start=pct_start, div_factor=div_factor,
                final_div_factor=final_div_factor, **rest)


def plateau(factor=0.5, patience=1, threshold=1e-4, min_lr=0.0, **rest):
    return plan("plateau", factor=factor, patience=patience, threshold=threshold, min_lr=min_lr,
                **rest)


PLANS = [
    plan("constant"),
    plan("constant", warmup_steps=7),
    plan("constant", warmup_steps=1),
    plan("cosine", min_lr=0.0),
    plan("cosine", min_lr=1e-3, warmup_steps=10),
    plan("cosine", min_lr=0.0, warmup_steps=1, total_steps=33, base_lr=3e-4),
    onecycle(),
    onecycle(pct_start=0.25, div_factor=10.0, total_steps=101, base_lr=0.4),
    onecycle(pct_start=0.0, total_steps=9),
    onecycle(pct_start=1.0, total_steps=9),
    onecycle(total_steps=2),
    plan("step", every_epochs=3, gamma=0.1),
    plan("step", every_epochs=2, gamma=0.5, warmup_steps=8),
]
PLATEAUS = [
    (plateau(), False, [1.0, 0.9, 0.9, 0.95, 0.91, 0.8, 0.81, 0.82, 0.83, 0.84, math.nan, 0.1]),
    (plateau(patience=0, min_lr=0.02), True, [0.5, 0.5, 0.6, 0.6, 0.59, 0.58, 0.57]),
    (plateau(patience=0, threshold=0.1), True, [0.5, 0.54, 0.56, 0.60, 0.62]),
    (plateau(patience=0, base_lr=3e-8), False, [1.0, 1.0, 1.0, 1.0]),
]


def optimizer(plan):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=plan["base_lr"], momentum=0.9)


def schedule(plan, sgd):
    """PyTorch's schedule for `plan`, stepped once a step of the optimiser."""
    kind = dict(plan["kind"])
    name, warmup = kind.pop("name"), plan["warmup_steps"]
    if name == "onecycle":
        return torch_schedules.OneCycleLR(sgd, plan["base_lr"], total_steps=plan["total_steps"],
                                          **kind)
    parts = [torch_schedules.LinearLR(sgd, 1 / warmup, 1, warmup - 1)] if warmup > 1 else []
    if name == "step":
        steps = kind["every_epochs"] * plan["steps_per_epoch"]
        parts.append(torch_schedules.StepLR(sgd, steps, kind["gamma"]))
    if name == "cosine":
        after = torch_schedules.CosineAnnealingLR(sgd, plan["total_steps"] - warmup, kind["min_lr"])
        if warmup:
            before = parts or [torch_schedules.ConstantLR(sgd, 1, 1)]
            return torch_schedules.SequentialLR(sgd, [*before, after], [warmup])
        return after
    return torch_schedules.ChainedScheduler(parts or [torch_schedules.ConstantLR(sgd, 1, 1)])


def by_step(plan):
    sgd = optimizer(plan)
    steps = schedule(plan, sgd)
    rates, momenta = [], []
    for step in range(plan["total_steps"]):
        if step:
            sgd.step()
            steps.step()
        rates.append(sgd.param_groups[0]["lr"])
        momenta.append(sgd.param_groups[0]["momentum"])
    case = {"plan": plan, "rates": rates}
    return {**case, "momenta": momenta} if plan["kind"]["name"] == "onecycle" else case


def by_epoch(plan, maximize, monitored):
    sgd = optimizer(plan)
    kind = {key: value for key, value in plan["kind"].items() if key != "name"}
    epochs = torch_schedules.ReduceLROnPlateau(sgd, "max" if maximize else "min", **kind)
    rates = []
    for value in monitored:
        epochs.step(value)
        rates.append(sgd.param_groups[0]["lr"])
    # JSON has no word for what is not a number.
    monitored = [None if math.isnan(value) else value for value in monitored]
    return {"plan": plan, "maximize": maximize, "monitored": monitored, "rates": rates}


def numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR's own call of a deprecated form
        return {"by_step": [by_step(plan) for plan in PLANS],
                "by_epoch": [by_epoch(*case) for case in PLATEAUS]}


def test_pytorch_gives_the_rates_that_forebay_is_held_to():
    expected, got = json.loads(NUMBERS.read_text()), numbers()
    for group in ["by_step", "by_epoch"]:
        assert len(expected[group]) == len(got[group])
        for old, new in zip(expected[group], got[group]):
            assert old["plan"] == new["plan"]
            for key in ["rates", "momenta"]:
                numpy.testing.assert_allclose(new.get(key, []), old.get(key, []), rtol=1e-13)


if __name__ == "__main__":
    cases = {group: ",\n".join(json.dumps(case) for case in cases)
             for group, cases in numbers().items()}
    groups = ",\n".join(f'"{group}": [\n{text}\n]' for group, text in cases.items())
    NUMBERS.write_text("{" + groups + "}\n")
