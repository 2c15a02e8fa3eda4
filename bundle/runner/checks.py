"""What this machine has, looked at before anything is run."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from process import Failed, last_line


def machine(bundle):
    """The machine, and what of it the bundle needs; never fails."""
    gpu, reason = probe(bundle)
    found = {
        "system": platform.platform(),
        "cpu": cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "glibc": glibc(),
        "glibc_needed": bundle.manifest["glibc"],
        "gpu": gpu,
        "no_gpu": reason,
        "nvidia_smi": nvidia_smi(),
        "libtorch": None,
        "nvjpeg": (bundle.root / "lib" / "libnvjpeg.so.13").exists(),
    }
    found["torch"] = torch = ask_torch()
    if torch:
        found["libtorch"] = bundle.libtorch = torch.pop("lib")
    return found


def probe(bundle):
    """The GPU as forebay sees it, or None and why."""
    try:
        status, out, err = bundle.start([bundle.program("gpu"), "--probe"])
        answer = json.loads(out)
        return answer["gpu"], answer.get("reason")
    except (OSError, ValueError, KeyError):
        return None, f"the program gpu does not start here: {last_line(err) if err else status}"


def is_software(gpu):
    """Whether it is the software driver's, by the name that tests/softgpu gives it."""
    return gpu is not None and gpu["name"] == "software device"


def cpu():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(": ", 1)[1]
    except OSError:
        pass
    return platform.machine()


def glibc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    except (ValueError, OSError, AttributeError):
        return None


def nvidia_smi():
    """Name, driver, memory and clocks by NVIDIA's own tool, where it is."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return None
    fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,pstate"
    try:
        command = [tool, f"--query-gpu={fields}", "--format=csv,noheader"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    first = run.stdout.strip().splitlines()
    return dict(zip(fields.split(","), (v.strip() for v in first[0].split(",")))) if first else None


ASK_TORCH = """
import importlib.metadata, importlib.util, json, os
spec = importlib.util.find_spec("torch")
answer = {"version": importlib.metadata.version("torch"), "cuda": None, "sees_gpu": None, "why": None}
answer["lib"] = os.path.join(spec.submodule_search_locations[0], "lib")
try:
    import torch
    answer.update(version=torch.__version__, cuda=torch.version.cuda, sees_gpu=torch.cuda.is_available())
except Exception as error:
    answer["why"] = str(error)
print(json.dumps(answer))
"""


def ask_torch():
    """Python's PyTorch, asked in a process of its own; its libraries serve even where Python cannot
    import it."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", ASK_TORCH], capture_output=True, text=True, timeout=60, check=True
        )
        return json.loads(run.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def describe_torch(torch):
    if torch is None:
        return "not in this python3"
    how = torch["why"] or ("sees the GPU" if torch["sees_gpu"] else "sees no GPU")
    return f"{torch['version']}, CUDA {torch['cuda']}, {how}"


def number(version):
    return tuple(int(part) for part in version.split("."))


def lines(found):
    """For people, before the first part."""
    gpu = found["gpu"]
    if gpu:
        major, minor = gpu["capability"]
        yield (f"GPU: {gpu['name']}, compute capability {major}.{minor}, "
               f"{gpu['memory_bytes'] >> 20} MiB; driver for CUDA {gpu['cuda']}")
    else:
        yield f"GPU: no device: {found['no_gpu']}"
    torch = found["torch"]
    yield f"PyTorch: {describe_torch(torch)}"
    yield f"glibc: {found['glibc']} (needed: {found['glibc_needed']})"


def programs(bundle):
    """Every program of the bundle starts; the trainer is looked at where it is used."""
    found = bundle.report["machine"]
    has, needed = found["glibc"], found["glibc_needed"]
    if has and needed and number(has) < number(needed):
        raise Failed(f"glibc {has} is too old: the programs need {needed}")
    if sys.maxsize < 2**32 or platform.machine() != bundle.manifest["arch"]:
        raise Failed(f"the programs are for {bundle.manifest['arch']}, not {platform.machine()}")
    bundle.call([bundle.program("forebay"), "--version"])
    bundle.call([bundle.program("device"), "--list"])
    doctor = json.loads(bundle.call([bundle.program("forebay"), "doctor", "--json"]))
    bundle.report["doctor"] = doctor
