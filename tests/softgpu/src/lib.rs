//! `libcuda.so` and `libnvjpeg.so.13` in software.
