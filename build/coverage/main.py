"""coverage CARGO-OPTION...: which lines of the kernels, and of what drives a GPU, no test here runs.

Kernels: compiled for the host at each level, their GPU entries walked on the software driver (both by
gcov), and the compiled PTX in the interpreter, where it is. Rust: by the compiler's own instrumentation, on
the software driver. Fails beyond the bounds below."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from lines import HERE, ROOT, build, llvm_tools, never_ran, output, rust_lines

sys.path.insert(0, str(ROOT / "build"))
from bundle import torch_folder  # noqa: E402

OUT = ROOT / "target" / "device-coverage"
GCOV = OUT / "gcov"
RUST = ["src/device/cuda", "src/decoder/nvjpeg", "src/executor/gpu"]
TESTS = ["device", "nvjpeg", "settle", "fusion", "ptx"]
MOST_KERNELS, MOST_RUST = 0.05, 100


def main(options):
    tools = llvm_tools()
    if not tools:
        sys.exit("coverage: rustc's llvm-cov is not there; type rustup component add llvm-tools")
    GCOV.mkdir(parents=True, exist_ok=True)
    for old in [*OUT.glob("*.profraw"), *GCOV.glob("*.gcda")]:
        old.unlink()
    ptx = compile_ptx()
    binaries, green = run_tests(options, {"FOREBAY_PTX": str(ptx)} if ptx else {})
    rust = rust_lines(tools, binaries, sorted(OUT.glob("*.profraw")), RUST)
    kernels = gcov_lines()
    for file, lines in ptx_lines(ptx).items() if ptx else ():
        for line, count in lines.items():
            # Lines that only the GPU's code has are the PTX's alone to run.
            kernels[file][line] = max(kernels[file].get(line, 0), count)
    page = [f"PTX: {'run' if ptx else 'NOT run, its interpreter is not here'}", ""]
    left = {"kernels": report("Kernels", kernels, page), "rust": report("Rust", rust, page)}
    (OUT / "report.txt").write_text("\n".join(page) + "\n")
    print("\n".join(page))
    never, lines = left["kernels"]
    if never > MOST_KERNELS * lines or left["rust"][0] > MOST_RUST:
        green = False
        print(f"coverage: beyond {MOST_KERNELS:.0%} of the kernels' lines or {MOST_RUST} of Rust")
    sys.exit(0 if green else 1)


def run_tests(options, more):
    """Builds the tests with counters and runs them; their programs, and whether they passed."""
    environment = {
        "CXX": str(HERE / "cxx.sh"),
        "FOREBAY_GCOV": str(GCOV),
        "LLVM_PROFILE_FILE": str(OUT / "%m-%p.profraw"),
        **more,
    }
    binaries = build(options, TESTS, "rustc.sh", environment)
    tests = [word for name in TESTS for word in ("--test", name)]
    run = ["cargo", "test", *options, "--no-fail-fast", *tests]
    wrapper = {"RUSTC_WORKSPACE_WRAPPER": str(HERE / "rustc.sh")}
    ran = subprocess.run(run, cwd=ROOT, env={**os.environ, **environment, **wrapper})
    return binaries, ran.returncode == 0


def gcov_lines():
    """The same of the kernels' files, over every object that has them."""
    found = defaultdict(dict)
    for counter in GCOV.glob("*.gcda"):
        text = output("gcov", "--json-format", "--stdout", counter)
        for file in json.loads(text)["files"]:
            name = re.search(r"kernels/\w+\.cuh?$", file["file"])
            for line in file["lines"] if name else []:
                lines, number = found[name.group()], line["line_number"]
                lines[number] = max(lines.get(number, 0), line["count"])
    return found


# Compiles the kernels with ptxrun's own way to NVRTC, whose `.loc` lines tell where code comes from.
COMPILE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import ptxrun
headers = {file.name: file.read_text() for file in Path("kernels").glob("*.cuh")}
for file in Path("kernels").glob("*.cu"):
    options = ["--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "-lineinfo"]
    text = ptxrun.compile_ptx(file.read_text(), headers, options, "compute_120", file.name)
    Path(sys.argv[2], file.stem + ".ptx").write_text(text)
"""


def compile_ptx():
    """A folder with the kernels' PTX for the interpreter; None where it is not there."""
    tools = Path(os.environ.get("FOREBAY_SHARED") or ROOT.parent / "shared").resolve() / "tools"
    python = Path(os.environ["FOREBAY_CACHE"]) / "ptx-numpy" / "bin" / "python"
    nvrtc = sorted(torch_folder().parent.glob("nvidia/*/lib/libnvrtc.so.*"))
    if not ((tools / "ptxrun.py").exists() and python.exists() and nvrtc):
        return None
    folder = OUT / "ptx"
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "NVRTC_DIR": str(nvrtc[0].parent)}
    command = [python, "-c", COMPILE, tools, folder]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return folder


def ptx_lines(folder):
    """Lines of the kernels that the interpreter ran and did not."""
    found = defaultdict(dict)
    for kernel in json.loads((folder / "lines.json").read_text()).values():
        for count, places in enumerate((kernel["never"], kernel["executed"])):
            for file, line in (place.rsplit(":", 1) for place in places):
                if not file.endswith(".ptx"):
                    lines = found[f"kernels/{file}"]
                    lines[int(line)] = max(lines.get(int(line), 0), count)
    return found


def report(title, files, page):
    """Adds a table and the lines that never ran; how many they are, and of how many."""
    page += [title, f"{'never ran':>10} {'of lines':>9}"]
    listed, never, lines = [], 0, 0
    for file in sorted(files):
        left = never_ran(file, files[file])
        page.append(f"{len(left):10} {len(files[file]):9} {file}")
        listed += left
        never, lines = never + len(left), lines + len(files[file])
    page += [f"{never:10} {lines:9} together ({never / max(lines, 1):.1%})", "", *listed, ""]
    return never, lines


if __name__ == "__main__":
    main(sys.argv[1:])
