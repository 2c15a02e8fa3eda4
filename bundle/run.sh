#!/bin/sh
# run.sh [--quick] [--out DIR] [--limit SECONDS]: what this machine's GPU makes of forebay, in one
# report. README.md beside this file says more.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
if ! command -v python3 >/dev/null; then
    echo "run.sh: no python3 on this machine, which the report is written with; install it" >&2
    exit 1
fi
exec python3 -B "$here/runner" "$@"
