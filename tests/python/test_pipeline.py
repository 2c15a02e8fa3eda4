"""forebay's dumps against Pillow, NumPy and torchvision."""
import numpy as np
import pytest
from conftest import dump, forebay, picture, write_list
from PIL import Image

MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32)
STD = np.array([0.2023, 0.1994, 0.2010], np.float32)


def decoded(folder, k):
    return np.asarray(Image.open(folder / f"{k}.jpg").convert("RGB"))


def test_valid_pipeline_equals_pillow_and_numpy(photos, tmp_path):
    seen = 0
    for images, labels, ids in dump(photos, tmp_path / "out", "cifar10-valid"):
        for image, label, k in zip(images, labels, ids):
            x = decoded(photos, k).astype(np.float32)
            expected = ((x / np.float32(255) - MEAN) / STD).transpose(2, 0, 1)
            assert expected.tobytes() == image.tobytes(), f"{k}.jpg"
            assert label == k % 10
            seen += 1
    assert seen == 1000


@pytest.mark.parametrize("size", [(1, 1), (7, 40), (33, 15), (240, 321)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_decode_equals_pillow(tmp_path, rng, size, subsampling, progressive):
    Image.fromarray(picture(rng, *size)).save(tmp_path / "0.jpg", quality=85,
                                              subsampling=subsampling, progressive=progressive)
    write_list(tmp_path, ["0.jpg"])
    [(images, _, _)] = dump(tmp_path, tmp_path / "out", "decode-only", "--batch-size", 1)
    assert np.array_equal(images[0], decoded(tmp_path, 0))


def test_train_pipeline_depends_on_identity_alone(photos, tmp_path):
    """The same sample, the same bytes: one thread or two, batches of 32 or 256, two shards."""
    def by_id(name, *args):
        found = {}
        for images, labels, ids in dump(photos, tmp_path / name, "cifar10-train", *args):
            for image, label, k in zip(images, labels, ids):
                assert k not in found
                found[k] = image.tobytes(), label
        return found

    whole = by_id("a", "--threads", 1, "--batch-size", 32)
    assert len(whole) == 1000
    assert whole == by_id("b", "--threads", 2, "--batch-size", 256)
    halves = [by_id(f"s{r}", "--shard", f"{r}/2", "--batch-size", 64) for r in (0, 1)]
    assert not halves[0].keys() & halves[1].keys()
    assert whole == halves[0] | halves[1]


def test_export_equals_pillows(tmp_path, rng):
    """CIFAR-10 exported at quality 75, 4:2:0 shows the pixels of Pillow's files."""
    source = tmp_path / "cifar-10-batches-bin"
    source.mkdir()
    images = np.stack([picture(rng, 32, 32) for _ in range(50)])
    images = images[np.arange(10000) % 50]
    records = np.empty((10000, 3073), np.uint8)
    records[:, 0] = np.arange(10000) % 10
    records[:, 1:] = images.transpose(0, 3, 1, 2).reshape(10000, -1)
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
        records.tofile(source / name)
    forebay("export", "cifar10", "--from", tmp_path, "--to", tmp_path / "jpeg")
    for k in range(50):
        Image.fromarray(images[k]).save(tmp_path / f"{k}.jpg", quality=75)
        assert np.array_equal(decoded(tmp_path, k), decoded(tmp_path / "jpeg/valid", k))
    lines = (tmp_path / "jpeg/train/labels.txt").read_text().splitlines()
    assert len(lines) == 50000 and lines[17] == "17.jpg 7"


@pytest.mark.parametrize("args", [
    dict(angle=20), dict(angle=-33, scale=1.3), dict(shear_x=15), dict(shear_y=-10),
    dict(translate=[3, -5]),
    dict(angle=12, translate=[2.5, 1.5], scale=0.8, shear_x=8, shear_y=5),
])
def test_affine_is_torchvisions(tmp_path, rng, args):
    import torch
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional
    source = picture(rng, 40, 56)
    Image.fromarray(source).save(tmp_path / "0.png")
    write_list(tmp_path, ["0.png"])
    lines = "".join(f"{key} = {value}\n" for key, value in args.items())
    (tmp_path / "p.toml").write_text(
        f'[[step]]\nop = "cast"\ndtype = "f32"\n[[step]]\nop = "affine"\nfill = 0\n{lines}')
    [(images, _, _)] = dump(tmp_path, tmp_path / "out", tmp_path / "p.toml")
    x = torch.from_numpy(source).permute(2, 0, 1).float()
    expected = functional.affine(
        x, angle=-args.get("angle", 0), translate=args.get("translate", [0, 0]),
        scale=args.get("scale", 1), shear=[args.get("shear_x", 0), args.get("shear_y", 0)],
        interpolation=InterpolationMode.BILINEAR)
    expected = expected.permute(1, 2, 0).numpy()
    # Beyond the edge both take 0. torch computes places in [-1, 1], so f32 differs a little.
    assert np.abs(images[0] - expected).max() < 0.1


@pytest.mark.parametrize("size, out", [((40, 56), (17, 20)), ((40, 56), (40, 31)),
                                       ((31, 25), (50, 64)), ((90, 120), (9, 7))])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize_is_torchvisions(tmp_path, rng, size, out, antialias):
    import torch
    from torchvision.transforms.v2 import functional
    source = picture(rng, *size)
    Image.fromarray(source).save(tmp_path / "0.png")
    write_list(tmp_path, ["0.png"])
    interp = "triangle" if antialias else "linear"
    (tmp_path / "p.toml").write_text(
        '[[step]]\nop = "cast"\ndtype = "f32"\n'
        f'[[step]]\nop = "resize"\nsize = {list(out)}\ninterp = "{interp}"\n')
    [(images, _, _)] = dump(tmp_path, tmp_path / "out", tmp_path / "p.toml")
    x = torch.from_numpy(source).permute(2, 0, 1).float()
    expected = functional.resize(x, list(out), antialias=antialias).permute(1, 2, 0).numpy()
    # Beyond the edge there is the edge pixel here; torch leaves such taps out when it antialiases.
    edge = 1 if antialias else 0
    inner = np.s_[edge:out[0] - edge, edge:out[1] - edge]
    assert np.abs(images[0][inner] - expected[inner]).max() < 0.02
