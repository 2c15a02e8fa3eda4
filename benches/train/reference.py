"""The same run in Python: torchvision's ResNet-18, a DataLoader with albumentations, Adam.

usage: reference.py DATA [--epochs 3] [--batch-size 128] [--lr 1e-3] [--seed 0] [--workers 2] [--fused]

DATA holds train/ and valid/, each with labels.txt ("name label" lines). Prints one JSON line an epoch:
{"epoch", "train_seconds", "train_loss", "valid_acc"}. The augmentation is that of
pipelines/cifar10-train.toml in albumentations' terms.
"""
import argparse
import json
import time
from pathlib import Path

import albumentations as A
import cv2
import numpy as np
import torch
import torchvision
from albumentations.pytorch import ToTensorV2
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Listed(Dataset):
    def __init__(self, folder, steps):
        lines = (folder / "labels.txt").read_text().splitlines()
        self.items = [line.rsplit(" ", 1) for line in lines if line]
        self.folder, self.transform = folder, A.Compose([*steps, A.Normalize(MEAN, STD), ToTensorV2()])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        name, label = self.items[i]
        image = cv2.cvtColor(cv2.imread(str(self.folder / name)), cv2.COLOR_BGR2RGB)
        return self.transform(image=image)["image"], int(label)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()

    cv2.setNumThreads(0)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    augment = [
        # forebay's rotate repeats the edge; albumentations' default is black.
        A.Rotate(limit=15, border_mode=cv2.BORDER_REPLICATE, p=0.5),
        A.RGBShift(15, 15, 15, p=0.5),
        A.RandomBrightnessContrast(0.05, 0.05, p=0.5),
    ]
    options = {"batch_size": args.batch_size, "num_workers": args.workers, "persistent_workers": True}
    train = DataLoader(Listed(args.data / "train", augment), shuffle=True, **options)
    valid = DataLoader(Listed(args.data / "valid", []), **options)

    model = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=args.fused)
    for epoch in range(1, args.epochs + 1):
        model.train()
        start, total = time.perf_counter(), 0.0
        for images, labels in train:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        seconds = time.perf_counter() - start
        model.eval()
        right = 0
        with torch.no_grad():
            for images, labels in valid:
                right += (model(images).argmax(1) == labels).sum().item()
        line = {
            "epoch": epoch,
            "train_seconds": seconds,
            "train_loss": total / len(train.dataset),
            "valid_acc": right / len(valid.dataset),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
