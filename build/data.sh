#!/bin/sh
# Finds or brings images to train on and prints their directory: CIFAR-10 as JPEG files, or shapes
# that forebay draws itself where CIFAR-10 cannot be had.
#   CIFAR10=DIR   the folder with data_batch_1.bin, or the one that holds cifar-10-batches-bin
set -eu
cd "$(dirname "$0")/.."

url=https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz
sha256=c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd
archive=data/cifar-10-binary.tar.gz
batches=cifar-10-batches-bin
forebay=target/release/forebay

say() { echo "data: $*" >&2; }

# The folder with the binaries: $1 itself or the one in it.
find_in() {
    for dir in "$1" "$1/$batches"; do
        if [ -e "$dir/data_batch_1.bin" ]; then
            echo "$dir"
            return
        fi
    done
    return 1
}

unpack() {
    say "unpacking $archive"
    rm -rf data/unpack.part
    mkdir data/unpack.part
    tar -xzf $archive -C data/unpack.part
    mv data/unpack.part/$batches data/
    rmdir data/unpack.part
}

export_cifar10() {
    $forebay export cifar10 --from "$1" --to data/cifar10-jpeg >&2
    echo data/cifar10-jpeg
}

mkdir -p data
if [ -n "${CIFAR10-}" ]; then
    from=$(find_in "$CIFAR10") || {
        say "no data_batch_1.bin in CIFAR10=$CIFAR10 or its $batches: name the folder that holds the binary version"
        exit 1
    }
    export_cifar10 "$from"
elif from=$(find_in data); then
    export_cifar10 "$from"
elif python3 build/fetch.py $url $sha256 $archive; then
    unpack
    export_cifar10 data/$batches
else
    [ $? != 130 ] || exit 130
    say "*** CIFAR-10 is not to be had, for the reason above: training on drawn shapes instead."
    say "*** For CIFAR-10, put cifar-10-binary.tar.gz into data/ or type make train CIFAR10=DIR."
    $forebay export shapes --to data/shapes --train 10000 --valid 2000 >&2
    echo data/shapes
fi
