#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER for fuzz.py: counters in the crates of this workspace and in no other,
# and word to tests/fuzz that they are there.
case " $* " in
    *" --crate-name build_script_build "*) exec "$@" ;;
    *) exec "$@" -C instrument-coverage --cfg fuzz_counters ;;
esac
