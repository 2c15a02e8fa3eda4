"""Writes tests/data/resize.json: what DALI's CPU operator `resize` makes of small pictures.

usage: python tests/python/dali_resize.py      in an environment with nvidia-dali-cuda130==2.4.0 and numpy

tests/operators/resample.rs holds forebay to it. The pictures are made there by the same formula.
"""
import json
from pathlib import Path

import numpy as np
from nvidia.dali import fn, pipeline_def, types

NUMBERS = Path(__file__).resolve().parents[1] / "data/resize.json"

# Columns and rows; forebay's arguments; DALI's.
CASES = []
for interp, kind in [("triangle", types.INTERP_LINEAR), ("linear", types.INTERP_LINEAR),
                     ("nearest", types.INTERP_NN)]:
    how = {"interp_type": kind, "antialias": interp == "triangle"}
    line = f'\ninterp = "{interp}"'
    for (w, h), (out_w, out_h) in [((40, 30), (17, 13)), ((40, 30), (25, 29)), ((13, 9), (29, 31)),
                                   ((64, 48), (32, 16)), ((50, 37), (7, 36)), ((31, 33), (31, 11)),
                                   ((90, 4), (20, 3)), ((5, 5), (5, 5)), ((3, 4), (4, 3))]:
        CASES.append(((w, h), f"size = [{out_h}, {out_w}]" + line,
                      {"size": [out_h, out_w], "mode": "stretch", **how}))
    for (w, h), mode, (rows, columns) in [((50, 37), "not_smaller", (20, 21)),
                                          ((50, 37), "not_larger", (20, 21)),
                                          ((37, 50), "not_larger", (24, 40))]:
        CASES.append(((w, h), f'size = [{rows}, {columns}]\nmode = "{mode}"' + line,
                      {"size": [rows, columns], "mode": mode, **how}))
    for subpixel in [True, False]:
        more = f"\nsubpixel_scale = {str(subpixel).lower()}"
        how = {**how, "subpixel_scale": subpixel}
        CASES.append(((50, 37), 'size = 25\nmode = "shorter"' + line + more,
                      {"resize_shorter": 25, **how}))
        CASES.append(((37, 50), 'size = 31\nmode = "longer"' + line + more,
                      {"resize_longer": 31, **how}))


def noise(width, height):
    """`Picture::noise` of tests/operators, in three channels."""
    y, x = np.mgrid[0:height, 0:width].astype(np.int64)
    levels = (x * 7919 + y * 104729) * 31 // 7 % 256
    return np.repeat(levels[..., None], 3, -1).astype(np.uint8)


def resized(image, **args):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe():
        source = fn.external_source(source=lambda: [image], layout="HWC")
        return fn.resize(source, **args)
    p = pipe()
    p.build()
    return p.run()[0].at(0)


if __name__ == "__main__":
    cases = []
    for (width, height), args, dali in CASES:
        out = resized(noise(width, height), **dali)
        assert (out == out[..., :1]).all()
        cases.append({"width": width, "height": height, "args": args, "out_width": out.shape[1],
                      "out_height": out.shape[0], "values": out[..., 0].tobytes().hex()})
    lines = ",\n".join(json.dumps(case) for case in cases)
    NUMBERS.write_text(f'{{"dali": "2.4.0", "cases": [\n{lines}\n]}}\n')
    print(f"{NUMBERS}: {len(cases)} cases")
