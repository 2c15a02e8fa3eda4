"""DALI's CPU operators: `course` or `photos`."""
import numpy as np
import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, types

import arguments
import steps


def source(folder, shuffle):
    jpegs, labels = fn.readers.file(file_root=str(folder), file_list=str(folder / "labels.txt"),
                                    random_shuffle=shuffle, name="reader")
    return jpegs, fn.cast(labels, dtype=types.INT64)


def drawn(low, high):
    return fn.random.uniform(range=(low, high))


# DALI's own fused operator for the last step: faster here than the formula written out.
def normalized(images, mean, std, **more):
    return fn.crop_mirror_normalize(images, mean=[255 * m for m in mean], std=[255 * s for s in std],
                                    dtype=types.FLOAT, output_layout="CHW", **more)


@pipeline_def(enable_conditionals=True)
def course(folder):
    jpegs, labels = source(folder, shuffle=True)
    images = fn.decoders.image(jpegs, device="cpu")
    if drawn(0, 1) < 0.5:
        images = fn.rotate(images, angle=drawn(-15, 15), keep_size=True)
    if drawn(0, 1) < 0.5:
        shift = fn.random.uniform(range=(-15, 15), shape=(3,))
        images = fn.cast(dali.math.clamp(images + shift, 0, 255), dtype=types.UINT8)
    if drawn(0, 1) < 0.5:
        images = fn.brightness_contrast(images, brightness=drawn(0.95, 1.05), contrast=drawn(0.95, 1.05))
    return normalized(images, steps.MEAN, steps.STD), labels


@pipeline_def
def course_fixed(folder):
    jpegs, labels = source(folder, shuffle=False)
    images = fn.decoders.image(jpegs, device="cpu")
    images = fn.rotate(images, angle=steps.ANGLE, keep_size=True)
    shift = types.Constant(np.float32(steps.SHIFT))
    images = fn.cast(dali.math.clamp(images + shift, 0, 255), dtype=types.UINT8)
    images = fn.brightness_contrast(images, brightness=steps.BRIGHTNESS, contrast=steps.CONTRAST)
    return normalized(images, steps.MEAN, steps.STD), labels


@pipeline_def
def photos(folder):
    jpegs, labels = source(folder, shuffle=True)
    images = fn.decoders.image_random_crop(jpegs, device="cpu", random_aspect_ratio=[3 / 4, 4 / 3],
                                           random_area=[0.08, 1.0])
    images = fn.resize(images, size=[steps.SIDE, steps.SIDE])
    mirror = fn.random.coin_flip()
    return normalized(images, steps.PHOTO_MEAN, steps.PHOTO_STD, mirror=mirror), labels


@pipeline_def
def photos_fixed(folder):
    jpegs, labels = source(folder, shuffle=False)
    images = fn.crop(fn.decoders.image(jpegs, device="cpu"), crop=steps.WINDOW)
    images = fn.resize(images, size=[steps.SIDE, steps.SIDE])
    return normalized(images, steps.PHOTO_MEAN, steps.PHOTO_STD, mirror=1), labels


def main():
    args = arguments.read("course", "photos")
    fixed = {"course": course_fixed, "photos": photos_fixed}
    made = fixed[args.work] if args.out else {"course": course, "photos": photos}[args.work]
    batch = steps.CHECKED if args.out else args.batch_size
    pipeline = made(args.data, batch_size=batch, num_threads=args.threads, device_id=None, seed=1)
    pipeline.build()
    if args.out:
        images, _ = pipeline.run()
        np.save(args.out, images.as_array())
        return
    batches = args.epochs * (len(steps.listed(args.data)) // batch)
    for _ in range(batches):
        pipeline.run()
    arguments.answer(batches * batch)


if __name__ == "__main__":
    main()
