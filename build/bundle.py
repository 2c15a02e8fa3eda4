"""bundle.py CARGO-OPTION...: makes target/gpu-bundle and target/gpu-bundle.tar.gz, for a machine with a
GPU and without cargo, then unpacks the tar elsewhere and runs it once, quickly."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = ROOT / "target" / "gpu-bundle"
TAR = ROOT / "target" / "gpu-bundle.tar.gz"
MOST = 40 << 20
NVJPEG = "libnvjpeg.so.13"
PROGRAMS = ["forebay", "forebay-train", "device", "gpu"]
# What the golden tests of tests/device read, where it is on this machine.
GOLDEN = Path(os.environ.get("FOREBAY_SHARED") or ROOT.parent / "shared") / "data" / "golden"


def main(options):
    built = build(options)
    shutil.rmtree(BUNDLE, ignore_errors=True)
    binaries = [strip(path, BUNDLE / "bin" / name) for name, path in built.items()]
    for link in ("libcuda.so", "libcuda.so.1", f"lib64/{NVJPEG}"):
        place = BUNDLE / "soft" / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(BUNDLE / "bin" / "libsoftgpu.so", place.parent))
    for name in ("run.sh", "README.md", "runner", "pipelines"):
        copy(ROOT / "bundle" / name, BUNDLE / name)
    copy(ROOT / "pipelines" / "cifar10-train.toml", BUNDLE / "pipelines" / "cifar10-train.toml")
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        copy(ROOT / name, BUNDLE / name)
    nvjpeg()
    if GOLDEN.exists():
        golden = BUNDLE / "shared" / "data" / "golden"
        copy(GOLDEN / "manifest.json", golden / "manifest.json")
        copy(GOLDEN / "inputs", golden / "inputs")
    else:
        say(f"without golden inputs, since {GOLDEN} is not there")
    (BUNDLE / "manifest.json").write_text(json.dumps(manifest(binaries), indent=1) + "\n")
    with tarfile.open(TAR, "w:gz") as tar:
        tar.add(BUNDLE, "gpu-bundle")
    size = TAR.stat().st_size
    if size > MOST:
        sys.exit(f"bundle: {TAR} has {size >> 20} MiB, more than {MOST >> 20}")
    check()
    say(f"{TAR.relative_to(ROOT)}: {size / (1 << 20):.1f} MiB; unpack it where the GPU is, and type "
        "gpu-bundle/run.sh")


def say(text):
    print(f"bundle: {text}", file=sys.stderr)


def build(options):
    """Builds what goes into bin/; names and paths."""
    targets = ["--bins", "--test", "device", "--bench", "gpu"]
    built = cargo("build", *options, *targets)
    built.update(cargo("build", "--release", "-p", "softgpu"))
    wanted = [*PROGRAMS, "libsoftgpu.so"]
    missing = [name for name in wanted if name not in built]
    if missing:
        say(f"without {', '.join(missing)}")
    return {name: built[name] for name in wanted if name in built}


def cargo(*arguments):
    command = [os.environ.get("CARGO", "cargo"), *arguments]
    command.append("--message-format=json-render-diagnostics")
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(run.returncode)
    found = {}
    for line in run.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            found[message["target"]["name"]] = Path(message["executable"])
        elif message["reason"] == "compiler-artifact" and "cdylib" in message["target"]["crate_types"]:
            found.update((Path(name).name, Path(name)) for name in message["filenames"])
    return found


def copy(source, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, to)


def strip(source, to):
    """A copy without what only debuggers read."""
    to.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "-o", to, source], check=True)
    return to


def nvjpeg():
    """NVIDIA's library from the wheel beside libtorch, with the licence that lets an application
    carry it. For the bundle only."""
    packages = torch_folder().parent
    library = packages / "nvidia" / "cu13" / "lib" / NVJPEG
    licences = sorted(packages.glob("nvidia_nvjpeg-13.*.dist-info/licenses/License.txt"))
    if not library.exists() or not licences:
        say(f"without nvJPEG: the wheel nvidia-nvjpeg with its licence is not in {packages}")
        return
    copy(library, BUNDLE / "lib" / NVJPEG)
    copy(licences[-1], BUNDLE / "lib" / "NVIDIA-LICENSE.txt")


def torch_folder():
    """LIBTORCH, or what `make setup` wrote for cargo."""
    config = ROOT / ".cargo" / "config.toml"
    text = config.read_text() if config.exists() else ""
    found = re.search(r'^LIBTORCH = "(.+)"$', text, re.M)
    return Path(os.environ.get("LIBTORCH") or (found.group(1) if found else ""))


def manifest(binaries):
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    commit = git("rev-parse", "--short=12", "HEAD")
    if commit and git("status", "--porcelain"):
        commit += " with changes"
    return {
        "version": version,
        "commit": commit or "unknown",
        "arch": platform.machine(),
        "glibc": newest("GLIBC", binaries),
        "glibcxx": newest("GLIBCXX", binaries),
        "rustc": output("rustc", "--version"),
    }


def newest(prefix, binaries):
    """The newest version of a library's symbols that the programs ask for."""
    text = output("readelf", "--version-info", "--wide", *binaries)
    versions = re.findall(rf"Name: {prefix}_([\d.]+)", text)
    return max(versions, key=lambda v: tuple(map(int, v.split("."))), default=None)


def git(*arguments):
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else ""


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def check():
    """The tar on its own: it unpacks, and runs to an honest end."""
    say("a quick run of the bundle, unpacked elsewhere")
    environment = {k: v for k, v in os.environ.items() if k != "FOREBAY_REQUIRE_GPU"}
    with tempfile.TemporaryDirectory(prefix="forebay-bundle-") as place:
        subprocess.run(["tar", "-xzf", TAR, "-C", place], check=True)
        run = Path(place, "gpu-bundle", "run.sh")
        if subprocess.run([run, "--quick"], env=environment).returncode:
            sys.exit("bundle: its own run failed, see above")
        report = json.loads(run.with_name("report.json").read_text())
        if report["machine"]["gpu"] is None:
            required = {**environment, "FOREBAY_REQUIRE_GPU": "1"}
            run = [run, "--limit", "0"]
            status = subprocess.run(run, env=required, stdout=subprocess.DEVNULL).returncode
            if status != 1:
                sys.exit(f"bundle: exit status {status} without a GPU and FOREBAY_REQUIRE_GPU=1")


if __name__ == "__main__":
    main(sys.argv[1:])
