"""fuzz.py SECONDS FILTER CARGO-OPTION...: runs the targets of tests/fuzz with counters in the code under test,
by which mutation finds its way, and tells how many of each parser's lines ran.

A run of an hour over all targets is held to the bounds below."""

import os
import subprocess
import sys

from lines import ROOT, build, llvm_tools, never_ran, output, rust_lines

OUT = ROOT / "target" / "fuzz"
HOUR, EXECUTIONS, SHARE = 3600, 1_000_000, 0.9


def main(seconds, name, *options):
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.profraw"):
        old.unlink()
    # Of whatever runs: build scripts, workers, the program that starts them.
    os.environ["LLVM_PROFILE_FILE"] = str(OUT / "%p.profraw")
    built = build(options, ["fuzz"], "fuzz.sh", {})
    # Beside the programs, which tests of them start.
    [binary] = [binary for binary in built if "/fuzz-" in binary]
    environment = {**os.environ, "FOREBAY_FUZZ_SECONDS": seconds}
    command = [binary, *([name] if name else [])]
    executions = 0
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
            if line.startswith("fuzz: "):
                executions = int(line.split()[1])
    green = run.returncode == 0
    least = coverage(binary, name)
    if int(seconds) >= HOUR and not name:
        for what, good in [
            (f"{EXECUTIONS} executions", executions >= EXECUTIONS),
            (f"{SHARE:.0%} of each parser's lines", least is None or least >= SHARE),
        ]:
            print(f"fuzz: {what}: {'yes' if good else 'NO'}")
            green &= good
    sys.exit(0 if green else 1)


def coverage(binary, name):
    """Prints how many lines of each target's files ran; the least share, None where nobody knows."""
    tools = llvm_tools()
    if not tools:
        print("*** no lines counted: rustc's llvm-cov is not there (rustup component add llvm-tools)")
        return None
    targets = [line.split() for line in output(binary, "--sources").splitlines()]
    targets = [(target, files) for target, *files in targets if name in target]
    sources = [file for _, files in targets for file in files]
    # Every target's run counts: the parser of expressions serves two files' grammars.
    found = rust_lines(tools, [binary], sorted(OUT.glob("*.profraw")), sources)
    page = []
    least = 1.0
    print(f"{'':>14} {'lines':>6} {'ran':>6}")
    for target, files in targets:
        counts = [count for file in files for count in found[file].values()]
        ran = sum(count > 0 for count in counts)
        least = min(least, ran / max(len(counts), 1))
        print(f"{target:>14} {len(counts):6} {ran / max(len(counts), 1):6.1%}")
        page += [line for file in files for line in never_ran(file, found[file])]
    report = OUT / "never-ran.txt"
    report.write_text("\n".join(page) + "\n")
    print(f"fuzz: the {len(page)} lines that did not run are in {report.relative_to(ROOT)}")
    return least


if __name__ == "__main__":
    main(*sys.argv[1:])
