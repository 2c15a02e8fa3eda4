#!/bin/sh
# deny.sh: cargo-deny over the lock files, with deny.toml. Compiles it on first use, into $FOREBAY_CACHE.
set -eu
cd "$(dirname "$0")/.."
: "${FOREBAY_CACHE:?set by the Makefile: type make deny}"

# Unoptimised: it compiles in less time than that saves.
version=0.20.2
dir=$FOREBAY_CACHE/cargo-deny-$version
deny=$dir/bin/cargo-deny

say() { echo "deny: $*" >&2; }

if [ ! -x "$deny" ]; then
    say "installing cargo-deny $version into $dir (once for this user)"
    cargo install --quiet --debug --locked --version "$version" --root "$dir" cargo-deny
fi
checks="licenses bans sources"
if "$deny" fetch db; then
    checks="$checks advisories"
else
    say "*** the advisory database is not to be had, for the reason above: known faults were NOT looked up"
fi
for manifest in Cargo.toml fuzz/Cargo.toml; do
    say "$manifest: $checks"
    # shellcheck disable=SC2086
    "$deny" --manifest-path "$manifest" --locked check --hide-inclusion-graph $checks
done
