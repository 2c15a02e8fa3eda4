"""Runs launches in the PTX interpreter of the shared tools folder (ptxrun.py).

    run.py TOOLS DIR FIRST STEP

DIR holds what tests/ptx/main.rs wrote: KERNEL.ptx, and `cases.json`, a list of cases. This process
takes the cases FIRST, FIRST + STEP, ... Case k starts from the memory image `k.in` at address BASE,
in which only its regions may be touched, and leaves the memory behind its launches in `k.out`.
`lines.FIRST.json` has, for each kernel, the lines that some thread executed and those that none did:
of its PTX and, where NVRTC compiled it with -lineinfo, of its sources. Jumps are in neither.
"""
import json
import pathlib
import re
import sys
import time

import numpy as np

BASE = 1 << 16
# Threads that run side by side, in whole blocks.
WAVE = 1 << 16
MAX_STEPS = 10_000_000


def main(tools, folder, first, step):
    sys.path.insert(0, tools)
    import ptxrun

    folder = pathlib.Path(folder)
    kernels = {p.stem: Kernel(ptxrun, p.stem, p.read_text()) for p in sorted(folder.glob("*.ptx"))}
    cases = json.loads((folder / "cases.json").read_text())
    start = time.monotonic()
    issued = 0
    for number in range(first, len(cases), step):
        case = cases[number]
        memory = np.fromfile(folder / f"{number}.in", np.uint8)
        try:
            for launch in case["launches"]:
                kernel = kernels[launch["kernel"]]
                args = bytes.fromhex(launch["args"])
                issued += kernel.launch(memory, case["regions"], launch["blocks"], launch["threads"], args)
        except ptxrun.PtxError as error:
            sys.exit(f"{case['label']}: {error}")
        memory.tofile(folder / f"{number}.out")
    lines = {name: kernel.lines() for name, kernel in kernels.items()}
    (folder / f"lines.{first}.json").write_text(json.dumps(lines))
    count = len(range(first, len(cases), step))
    print(f"interpreter {first}: {count} cases, {issued} instructions issued, {time.monotonic() - start:.1f} s")


class Kernel:
    """One kernel of its own PTX text. Buffers lie at addresses that the caller chose, since structures
    hold them: `Module.launch` chooses its own, so this builds on the waves below it."""

    def __init__(self, ptxrun, name, text):
        text, self.source = without_places(scoped_registers(text))
        self.name = name
        self.module = ptxrun.Module(text)
        self.kernel = self.module.kernels[f"forebay_{name}"]
        self.touched = touched = set()

        class Wave(ptxrun._Wave):
            def step(self, instruction, threads):
                touched.add(instruction.line)
                super().step(instruction, threads)

        self.wave = Wave

    def launch(self, memory, regions, blocks, threads, args):
        if len(args) != self.kernel.param_bytes:
            raise SystemExit(f"{self.kernel.name} takes {self.kernel.param_bytes} bytes, not {len(args)}")
        # The module's own variables behind the caller's memory, with a gap that nothing may touch.
        buffers = [(f"region {k}", BASE + at, size, None) for k, (at, size) in enumerate(regions)]
        mem = np.concatenate([np.zeros(BASE, np.uint8), memory])
        symbols = {}
        for name, data in self.module.globals:
            symbols[name] = at = (len(mem) + 511) // 256 * 256
            mem = np.concatenate([mem, np.zeros(at - len(mem), np.uint8), data])
            buffers.append((name, at, len(data), None))
        params = np.frombuffer(args, np.uint8)
        whole, issued = max(1, WAVE // threads), 0
        for first in range(0, blocks, whole):
            count = min(whole, blocks - first)
            grid, block = (blocks, 1, 1), (threads, 1, 1)
            wave = self.wave(self.module, self.kernel, grid, block, first, count, mem, params, buffers, symbols)
            issued += wave.run(MAX_STEPS)
        memory[:] = mem[BASE:BASE + len(memory)]
        return issued

    def lines(self):
        jumps = ("bra", "brx", "ret", "exit", "bar", "barrier")
        code = {i.line for i in self.kernel.code if i.op not in jumps}
        named = lambda lines: {f"{self.name}.ptx:{n}" for n in lines} | {self.source[n] for n in lines} - {None}
        executed = named(self.touched)
        return {"executed": sorted(executed), "never": sorted(named(code) - executed)}


def without_places(text):
    """The text without its `.loc` lines, in which the interpreter would see no end (they have no `;`)
    and which stay as empty lines; and the source line, "file:line", of each line of it, from 1."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"(?:.*/)?(.*)"', text, re.M))
    lines, source, here = [], [None], None
    for line in text.split("\n"):
        place = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", line)
        if place:
            here = f"{files[place[1]]}:{place[2]}"
        lines.append("" if place or re.match(r"\s*\.file\b", line) else line)
        source.append(here)
    return "\n".join(lines), source


def scoped_registers(text):
    """NVRTC gives some lines a scope with a register of their own, whose name has no `%`:
    `{ .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd1; }`. The interpreter knows registers by their `%`, and
    none of a scope, so that these get names with a type."""
    lines = []
    for line in text.split("\n"):
        own = re.match(r"\s*\{\s*\.reg\s+\.(\w+)\s+([A-Za-z_]\w*);", line)
        lines.append(re.sub(rf"\b{own[2]}\b", f"%{own[2]}_{own[1]}", line) if own else line)
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
