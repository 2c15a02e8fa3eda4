"""albumentations over decoded images that lie in memory, on one thread: `course`."""
import cv2
import numpy as np

import arguments
import steps


def main():
    args = arguments.read("course")
    cv2.setNumThreads(0)
    names = [name for name, _ in steps.listed(args.data)]
    images = [cv2.imread(str(args.data / name), cv2.IMREAD_COLOR_RGB) for name in names]
    transform = steps.albumentations(fixed=bool(args.out))
    if args.out:
        made = [transform(image=image)["image"].numpy() for image in images[: steps.CHECKED]]
        np.save(args.out, np.stack(made))
        return
    for _ in range(args.epochs):
        for image in images:
            transform(image=image)
    arguments.answer(args.epochs * len(images))


if __name__ == "__main__":
    main()
