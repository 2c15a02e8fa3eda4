"""Training here and in Python, in turn, on the same files: time an epoch and accuracy.

usage: compare.py DATA OUT [--epochs 3] [--seeds 3] [--batch-size 128] [--lr 1e-3]

A round is one seed: forebay, PyTorch with Adam as it comes, PyTorch with fused=True, each after the
other, in an order that turns with the round. Each epoch becomes a line of OUT/raw.csv; a run that is
there already is not done again, so that what was broken off goes on. Then OUT/README.md is written,
and README.md's table between its markers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from record import ROOT, processor, put_between, read_rows, write_rows

CONTENDERS = {
    "forebay": "forebay",
    "torch": "PyTorch, Adam as it comes",
    "torch-fused": "PyTorch, Adam with fused=True",
}
FIELDS = ["seed", "contender", "epoch", "train_seconds", "train_loss", "valid_acc", "load"]


def command(contender, seed, args, out):
    common = ["--epochs", args.epochs, "--batch-size", args.batch_size, "--lr", args.lr, "--seed", seed]
    if contender == "forebay":
        program = ROOT / "target/release/forebay"
        return [program, "train", "--data", args.data, "--out", out, "--device", "cpu", *common]
    fused = ["--fused"] if contender == "torch-fused" else []
    return [sys.executable, ROOT / "benches/train/reference.py", args.data, *common, *fused]


def epochs(contender, line):
    """The figures in a line of output, where it is that of an epoch."""
    if contender != "forebay":
        return json.loads(line)
    if not line.startswith("epoch "):
        return None
    told = dict(word.split("=") for word in line.split() if "=" in word)
    number = int(line.split()[1].split("/")[0])
    return {"epoch": number, **{key: float(told[key]) for key in FIELDS[3:6]}}


def run(contender, seed, args, rows):
    done = {row["epoch"] for row in rows if (row["seed"], row["contender"]) == (str(seed), contender)}
    if len(done) == args.epochs:
        return
    rows[:] = [row for row in rows if (row["seed"], row["contender"]) != (str(seed), contender)]
    with tempfile.TemporaryDirectory() as scratch:
        line = [str(word) for word in command(contender, seed, args, Path(scratch) / "run")]
        print("compare:", " ".join(line), file=sys.stderr, flush=True)
        # forebay sets this for itself: threads of OpenMP that wait leave the cores to the loader.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        child = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)
        for text in child.stdout:
            told = epochs(contender, text)
            if told:
                told = {key: str(value) for key, value in told.items()}
                load = f"{os.getloadavg()[0]:.2f}"
                rows.append({"seed": str(seed), "contender": contender, **told, "load": load})
                print("compare:", contender, seed, told, file=sys.stderr, flush=True)
        if child.wait() != 0:
            sys.exit(f"compare: {contender} failed")
    write_rows(args.out / "raw.csv", FIELDS, rows)


def seconds(rows, seed, contender):
    """Of a training pass, the mean over a run's epochs."""
    mine = [r for r in rows if (r["seed"], r["contender"]) == (str(seed), contender)]
    return statistics.mean(float(row["train_seconds"]) for row in mine)


def accuracies(rows, contender, epochs):
    last = [r for r in rows if r["contender"] == contender and r["epoch"] == str(epochs)]
    return [float(row["valid_acc"]) for row in last]


def table(rows, args):
    seeds = range(args.seeds)
    lines = [
        "| training | seconds an epoch, mean of each run | valid accuracy, mean (each) | forebay is faster by, median (range) |",
        "|---|---|---|---|",
    ]
    for contender, name in CONTENDERS.items():
        times = [seconds(rows, seed, contender) for seed in seeds]
        scores = accuracies(rows, contender, args.epochs)
        ratios = [t / seconds(rows, seed, "forebay") for seed, t in zip(seeds, times)]
        ratio = "" if contender == "forebay" else (
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        lines.append("| {} | {} | {:.4f} ({}) | {} |".format(
            name, ", ".join(f"{t:.0f}" for t in times), statistics.mean(scores),
            ", ".join(f"{s:.4f}" for s in scores), ratio))
    return "\n".join(lines)


def verdict(rows, args):
    """The goals: 1.05 times as fast as the faster of the two; accuracies within 1.5 points and two
    standard errors."""
    fastest = [min(seconds(rows, seed, c) for c in list(CONTENDERS)[1:]) for seed in range(args.seeds)]
    ratio = statistics.median(t / seconds(rows, s, "forebay") for s, t in enumerate(fastest))
    said = [f"Against the faster of the two, round by round: {ratio:.2f} times as fast (goal 1.05)."]
    ours = accuracies(rows, "forebay", args.epochs)
    for contender in list(CONTENDERS)[1:]:
        theirs = accuracies(rows, contender, args.epochs)
        gap = abs(statistics.mean(ours) - statistics.mean(theirs))
        error = sum(statistics.variance(s) / len(s) for s in (ours, theirs)) ** 0.5 if args.seeds > 1 else 0
        said.append(f"Mean accuracies differ from those of {CONTENDERS[contender]} by {100 * gap:.2f} "
                    f"points; two standard errors of the difference are {200 * error:.2f} (goal: within "
                    "these and 1.5).")
    return " ".join(said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    # Rows of other settings are no part of this table.
    samples = sum(1 for _ in (args.data / "train/labels.txt").open())
    settings = {"samples": samples, "epochs": args.epochs, "batch_size": args.batch_size,
                "lr": args.lr}
    told = args.out / "settings.json"
    if told.exists() and json.loads(told.read_text()) != settings:
        sys.exit(f"compare: {args.out} holds rows of {told.read_text()}; give another folder")
    told.write_text(json.dumps(settings))
    rows = read_rows(args.out / "raw.csv")
    for seed in range(args.seeds):
        order = list(CONTENDERS)
        for contender in order[seed % 3 :] + order[: seed % 3]:
            run(contender, seed, args, rows)

    machine = f"{os.cpu_count()} cores of {processor()}, shared with other work (the load is in raw.csv)"
    said = (f"{samples} training images, {args.epochs} epochs, batches of {args.batch_size}, Adam at "
            f"{args.lr:g}, f32, {args.seeds} seeds in turn, on {machine}. torch 2.11.0, torchvision's "
            f"ResNet-18 as it comes (not channels-last, as forebay's is), DataLoader with 2 workers and "
            f"albumentations; OMP_WAIT_POLICY=passive for all; `make compare-python`.")
    text = f"{table(rows, args)}\n\n{said}\n\n{verdict(rows, args)}\n"
    (args.out / "README.md").write_text(f"# Training here and in Python\n\n{text}")
    print(text)
    if samples == 50_000:
        put_between("compare-python", text)


if __name__ == "__main__":
    main()
