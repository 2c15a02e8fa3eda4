#!/bin/sh
# setup.sh [build] [torch] [python] [peers] [ptx]: brings what is missing, and says nothing when all is there.
#   build   cmake and nasm, for libjpeg-turbo with its SIMD code
#   torch   PyTorch and NVRTC, in $FOREBAY_CACHE; cargo learns the place from .cargo/config.toml
#   python  torchvision, tensorboard and Pillow, in an environment of their own
#   peers   DALI, torchvision and albumentations, in an environment of their own
#   ptx     NumPy alone, in an environment of its own, for the interpreter of compiled kernels
set -eu
cd "$(dirname "$0")/.."
: "${FOREBAY_CACHE:?set by the Makefile: type make setup}"

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# Debian packages: installed as root, else the one command to type.
apt() {
    if ! command -v apt-get >/dev/null; then
        die "missing: $*. Install them with this system's package manager and run make again"
    elif [ "$(id -u)" != 0 ]; then
        die "missing: $*. Type this and run make again: sudo apt-get install -y $*"
    fi
    say "installing $* with apt-get"
    if ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$@" >/dev/null; }; then
        die "apt-get could not install $*, for the reason above"
    fi
}

build() {
    missing=
    command -v cmake >/dev/null || missing="cmake"
    case $(uname -m) in
        x86_64) command -v nasm >/dev/null || missing="$missing nasm" ;;
    esac
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt $missing
}

# The packages that a list asks for, without their files' checksums.
asked() { sed -n 's/ *\\$//; /^[a-z]/p' "$1" | sort; }

made() { [ -e "$1/complete" ] && [ "$(asked "$1/complete")" = "$(asked "$2")" ]; }

# environment DIR LIST PIP-OPTION...: a virtual environment with the packages of LIST. Where LIST has
# checksums, pip takes nothing without one. The copy of LIST inside it is written last: an install that
# broke off, or one of other packages, starts anew.
environment() {
    dir=$1 list=$2
    shift 2
    if made "$dir" "$list"; then return; fi
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt python3-venv
    mkdir -p "$FOREBAY_CACHE"
    exec 9>"$dir.lock"
    flock -n 9 || { say "waiting for another install into $dir"; flock 9; }
    if ! made "$dir" "$list"; then
        say "installing $list into $dir (once for this user)"
        rm -rf "$dir"
        python3 -m venv "$dir"
        "$dir/bin/python" -m pip --disable-pip-version-check --no-cache-dir install --no-compile "$@" -r "$list" ||
            die "pip could not install $list, for the reason above. Run make again to retry"
        cp "$list" "$dir/complete"
    fi
    exec 9>&-
}

gpu() { [ -e /dev/nvidiactl ] || nvidia-smi -L >/dev/null 2>&1; }

# A LIBTORCH of the user's own is left to cargo as it is.
torch() {
    [ -z "${LIBTORCH-}" ] || return 0
    dir=$FOREBAY_CACHE/torch-2.11.0
    if gpu; then
        dir=$dir-cuda
        environment "$dir" build/requirements-cuda.txt
    else
        environment "$dir" build/requirements.txt --no-deps
    fi
    libtorch=$(echo "$dir"/lib/python3*/site-packages/torch)
    config="# Written by \`make setup\`. LIBTORCH in the environment overrides it.
[env]
LIBTORCH = \"$libtorch\""
    if [ "$(cat .cargo/config.toml 2>/dev/null)" != "$config" ]; then
        mkdir -p .cargo
        echo "$config" >.cargo/config.toml
    fi
}

python() { environment "$FOREBAY_CACHE/python-2.11.0" build/requirements-python.txt; }

peers() { environment "$FOREBAY_CACHE/peers-dali-2.4.0" build/requirements-peers.txt; }

ptx() { environment "$FOREBAY_CACHE/ptx-numpy" build/requirements-ptx.txt; }

for part in "${@:-build}"; do
    case $part in
        build | torch | python | peers | ptx) "$part" ;;
        *) die "unknown part $part: build, torch, python, peers or ptx" ;;
    esac
done
