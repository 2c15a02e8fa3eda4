"""The steps that all sides do, with draws or with one set of values for all images."""

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
PHOTO_MEAN, PHOTO_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 224

# The values of a checked batch. The window is centred in photos of 500x375, to a pixel.
ANGLE, SHIFT, BRIGHTNESS, CONTRAST = 10.0, (7.0, -5.0, 11.0), 1.04, 0.96
WINDOW, PHOTO = (299, 300), (375, 500)
CHECKED = 64

_HEAD = """[reader]
kind = "file"
file_list = "labels.txt"
shuffle = false

[decoder]
device = "cpu"
"""
_OUTPUT = """
[output]
layout = "CHW"
dtype = "f32"
"""

# For forebay: the course's pipeline, and that of photos, without draws.
COURSE = f"""{_HEAD}
[[step]]
op = "rotate"
angle = {ANGLE}
keep_size = true

[[step]]
op = "rgb_shift"
shift = {list(SHIFT)}

[[step]]
op = "brightness_contrast"
brightness = {BRIGHTNESS}
contrast = {CONTRAST}

[[step]]
op = "normalize"
mean = {list(MEAN)}
std = {list(STD)}
{_OUTPUT}"""
PHOTOS = f"""{_HEAD}
[[step]]
op = "crop"
size = {list(WINDOW)}

[[step]]
op = "resize"
size = [{SIDE}, {SIDE}]

[[step]]
op = "flip"
horizontal = true

[[step]]
op = "normalize"
mean = {list(PHOTO_MEAN)}
std = {list(PHOTO_STD)}
{_OUTPUT}"""


def listed(folder):
    """Names and labels of a folder's list."""
    lines = (folder / "labels.txt").read_text().splitlines()
    return [line.rsplit(" ", 1) for line in lines if line]


def albumentations(fixed):
    """The course's steps in albumentations' terms. Its brightness and contrast are one scale and one
    offset, drawn apart, where forebay's and DALI's are factors."""
    import albumentations as A
    import cv2
    from albumentations.pytorch import ToTensorV2

    def one(value):
        return (value, value)

    # forebay repeats the edge; albumentations' default is black.
    border = cv2.BORDER_REPLICATE
    last = [A.Normalize(MEAN, STD), ToTensorV2()]
    if fixed:
        scale, offset = BRIGHTNESS * CONTRAST, BRIGHTNESS * (128 - CONTRAST * 128)
        return A.Compose([
            A.Rotate(limit=one(ANGLE), border_mode=border, p=1),
            A.RGBShift(*map(one, SHIFT), p=1),
            A.RandomBrightnessContrast(one(offset / 255), one(scale - 1), p=1),
            *last,
        ])
    return A.Compose([
        A.Rotate(limit=15, border_mode=border, p=0.5),
        A.RGBShift(15, 15, 15, p=0.5),
        A.RandomBrightnessContrast(0.05, 0.05, p=0.5),
        *last,
    ])
