"""What every side is told, and what it answers."""
import argparse
import json
from pathlib import Path


def read(*works):
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=works)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=256)
    # Instead of epochs: the first images of the list with fixed values, as one array.
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def answer(images):
    print(json.dumps({"images": images}))
