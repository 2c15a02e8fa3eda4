"""The report as a page for people."""

from statistics import median

from checks import describe_torch, is_software


def table(report):
    """Markdown."""
    machine, bundle = report["machine"], report["bundle"]
    page = [f"# forebay {bundle['version']} ({bundle['commit']}): {report['verdict']}", ""]
    if report["quick"]:
        page += ["A quick run, to see that everything runs: its times mean nothing.", ""]
    page += rows(("", ""), about(report, machine))
    page += section("Parts", ("part", "outcome", "seconds", ""), [
        (part["name"], part["outcome"], part["seconds"], part["why"]) for part in report["parts"]])
    page += section("Device tests", ("test", "cpu", "software driver", "cuda:0"), tests(report))
    decoder = "The software driver's stand-in for nvJPEG" if is_software(machine["gpu"]) else "nvJPEG"
    page += section(
        f"{decoder} against the CPU decoder, in levels of 255",
        ("images", "largest", "mean", "values that differ"),
        [(row["images"], row["largest"], row["mean"], percent(row.get("differ")))
         for row in report["nvjpeg"]])
    page += kernels(report.get("kernels"))
    page += section(
        "Loader, files to batches of 256 read by the host, images/s",
        ("device", "pixels", "decoder", "median", "each epoch", "by nvJPEG", "bytes as on the CPU"),
        loader(report["loader"]))
    page += section(
        "Training a ResNet-18",
        ("pixels", "precision", "batch", "epoch", "seconds", "waited for data", "images/s", "loss"),
        [(r["size"], r["precision"], r["batch_size"], r["epoch"], r.get("train_seconds"), r.get("wait_seconds"),
          r.get("images_per_s"), r.get("train_loss")) for r in report["training"]])
    if "calibration" in report:
        page += ["## Calibration", "", "```text", *report["calibration"], "```", ""]
    for test in report["tests"]:
        if test.get("said"):
            page += [f"## {test['name']} on {test['device']}: {test['outcome']}", ""]
            page += ["```text", *test["said"], "```", ""]
    return "\n".join(page)


def about(report, machine):
    gpu, smi, torch = machine["gpu"], machine["nvidia_smi"], machine["torch"]
    yield "date", report["date"]
    yield "GPU", f"no device: {machine['no_gpu']}" if gpu is None else (
        f"{gpu['name']}, sm_{gpu['capability'][0]}{gpu['capability'][1]}, "
        f"{gpu['memory_bytes'] >> 20} MiB")
    if gpu:
        yield "driver", f"CUDA {gpu['cuda']}" + (f", {smi['driver_version']}" if smi else "")
    if smi:
        yield "clocks", f"{smi['clocks.max.sm']} and memory {smi['clocks.max.mem']} at most"
    yield "CPU", f"{machine['cpu']}, {machine['cores']} cores"
    yield "system", f"{machine['system']}, glibc {machine['glibc']}"
    yield "PyTorch", describe_torch(torch)
    if "graphs" in report:
        word = "equal to the bit" if report["graphs"]["equal"] else "NOT shown to be equal"
        yield "CPU and GPU", f"{word} over {report['graphs']['graphs']} random graphs"
    if "nvjpeg_paths" in report:
        paths = report["nvjpeg_paths"]
        yield "nvJPEG", f"{paths['hardware']} images by the engine, {paths['single']} one by one"
    if "sanitizer" in report:
        yield "compute-sanitizer", f"{report['sanitizer']['errors']} errors"


def tests(report):
    names = list(dict.fromkeys(test["name"] for test in report["tests"]))
    for name in names:
        def cell(device):
            for test in report["tests"]:
                if (test["name"], test["device"]) == (name, device):
                    seconds = test["seconds"]
                    return test["outcome"] + ("" if seconds is None else f" {seconds:.1f} s")
            return ""
        yield name, cell("cpu"), cell("soft"), cell("cuda:0")


def kernels(measured):
    if not measured or not measured.get("kernels"):
        return []
    page = section(
        "Kernels: the course's pipeline, u8 to f32, and of small images our JPEG decoder",
        ("kernel", "pixels", "batch", "us (median, least, most; n)", "MB", "GB/s", "of a copy"),
        [(k["kernel"], f"{k['side']}x{k['side']}", k["batch"], spread(k["us"]),
          f"{k['bytes'] / 1e6:.1f}", gb_per_s(k), percent(k["share_of_copy"]))
         for k in measured["kernels"]])
    page += [
        f"A launch of nothing takes {measured['empty_launch_us']['median']:.2f} us, which is in every "
        "time. \"Of a copy\": of the speed of a copy within the device that moves as many bytes, "
        "reads and writes counted, by the driver; where both fit into the cache, so does the copy.",
        "",
    ]
    page += section(
        "The same small JPEGs, file to pixels",
        ("decoder", "pixels", "batch", "us a batch (median, least, most; n)", "images/s"),
        [(d["decoder"], f"{d['side']}x{d['side']}", d["batch"], *decoded(d))
         for d in measured["decoders"]])
    return page + section(
        "Copies within the device", ("MB", "us (median, least, most; n)", "GB/s"),
        [(f"{c['bytes'] / 1e6:.1f}", spread(c["us"]), gb_per_s(c)) for c in measured["copies"]])


def decoded(row):
    us = row["us"]
    return (spread(us), f"{row['batch'] / us['median'] * 1e6:,.0f}") if us else (row["why"], "")


def loader(runs):
    host = {(r["size"], r["decoder"]): r["digest"] for r in runs if r["device"] == "cpu"}
    for run in runs:
        rates = run["images_per_s"]
        expected = host.get((run["size"], run["decoder"]))
        same = "" if expected is None or run["device"] == "cpu" else (
            "yes" if expected == run["digest"] else "no")
        yield (run["device"], run["size"], run["decoder"], f"{median(rates):.0f}",
               ", ".join(f"{rate:.0f}" for rate in rates), by_nvjpeg(run), same)


def by_nvjpeg(run):
    counts = run["decoded"].get("nvjpeg")
    return f"{counts['hardware']} by the engine, {counts['single']} singly" if counts else ""


def spread(us):
    return f"{us['median']:.2f} ({us['least']:.2f}, {us['most']:.2f}; {us['n']})"


def gb_per_s(measured):
    return f"{measured['bytes'] / measured['us']['median'] / 1e3:.1f}"


def percent(share):
    return "" if share is None else f"{100 * share:.1f} %"


def section(title, head, body):
    lines = rows(head, body)
    return [f"## {title}", "", *lines] if lines else []


def rows(head, body):
    """A table, or nothing where it has no rows."""
    cell = lambda value: "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
    line = lambda values: "| " + " | ".join(map(cell, values)) + " |"
    body = [line(values) for values in body]
    return [line(head), line(["---"] * len(head)), *body, ""] if body else []
