// What tch lacks of libtorch, over its headers. No header of CUDA's is needed.

#include <ATen/Context.h>

// Whether convolutions and matrix products of f32 on a GPU may round what they multiply to TF32, 10
// bits of mantissa. libtorch's own start is neither: convolutions may, matrix products may not.
//
// These setters, and not setFloat32Precision alone: libtorch_cuda 2.11 still asks allowTF32CuBLAS,
// which throws unless the old flag and the new table agree, and these set both.
extern "C" void forebay_allow_tf32(bool allow) noexcept {
    at::globalContext().setAllowTF32CuDNN(allow);
    at::globalContext().setAllowTF32CuBLAS(allow);
}

// Whether both may.
extern "C" bool forebay_tf32() noexcept {
    const auto tf32 = [](at::Float32Op op) {
        return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) ==
            at::Float32Precision::TF32;
    };
    return tf32(at::Float32Op::CONV) && tf32(at::Float32Op::MATMUL);
}
