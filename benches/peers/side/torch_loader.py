"""PyTorch's DataLoader: `course` with OpenCV and albumentations, `photos` with torchvision v2."""
import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import v2

import arguments
import steps


class Course(Dataset):
    def __init__(self, folder, fixed):
        self.folder, self.items = folder, steps.listed(folder)
        self.transform = steps.albumentations(fixed)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        name, label = self.items[i]
        image = cv2.imread(str(self.folder / name), cv2.IMREAD_COLOR_RGB)
        return self.transform(image=image)["image"], int(label)


class Window(torch.nn.Module):
    """The middle, mirrored."""

    def forward(self, image):
        (rows, columns), (height, width) = steps.WINDOW, image.shape[-2:]
        place = ((height - rows) // 2, (width - columns) // 2, rows, columns)
        size = [steps.SIDE, steps.SIDE]
        return v2.functional.horizontal_flip(
            v2.functional.resized_crop(image, *place, size, antialias=True))


class Photos(Dataset):
    def __init__(self, folder, fixed):
        self.folder, self.items = folder, steps.listed(folder)
        drawn = [v2.RandomResizedCrop(steps.SIDE, antialias=True), v2.RandomHorizontalFlip()]
        self.transform = v2.Compose([
            *([Window()] if fixed else drawn),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(steps.PHOTO_MEAN, steps.PHOTO_STD),
        ])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        name, label = self.items[i]
        image = decode_image(read_file(str(self.folder / name)), ImageReadMode.RGB)
        return self.transform(image), int(label)


def main():
    args = arguments.read("course", "photos")
    # The workers are the threads.
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    data = {"course": Course, "photos": Photos}[args.work](args.data, fixed=bool(args.out))
    if args.out:
        images = [data[i][0].numpy() for i in range(min(steps.CHECKED, len(data)))]
        np.save(args.out, np.stack(images))
        return
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=args.threads,
                        persistent_workers=True)
    images = 0
    for _ in range(args.epochs):
        for batch, _ in loader:
            images += len(batch)
    arguments.answer(images)


if __name__ == "__main__":
    main()
