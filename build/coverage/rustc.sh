#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER: counters in the crates of this workspace and in no other. The C++
# objects in them have gcc's, which need its runtime.
case " $* " in
    *" --crate-name build_script_build "*) exec "$@" ;;
    *) exec "$@" -C instrument-coverage -C link-arg=--coverage ;;
esac
