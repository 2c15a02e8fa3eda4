#!/bin/sh
# CXX: counters in the kernels, those of each level in files of their own in $FOREBAY_GCOV. Objects
# of all levels have one name.
level=
for word; do
    case $word in -DFB_LEVEL=*) level=${word#*=} ;; esac
done
[ -n "$level" ] || exec c++ "$@"
exec c++ "$@" --coverage -dumpdir "$FOREBAY_GCOV/$level-"
