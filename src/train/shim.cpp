// What tch lacks of libtorch, over its headers. No header of CUDA's is needed.
//
// Every function that can throw gives a message, which the caller frees, or null when it went well.
// Tensors come as tch holds them, as pointers to at::Tensor.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace {

using List = at::Tensor* const*;

template <class F>
char* guarded(F f) noexcept {
    try {
        f();
        return nullptr;
    } catch (const std::exception& e) {
        return strdup(e.what());
    } catch (...) {
        return strdup("an exception of an unknown kind");
    }
}

std::vector<at::Tensor> list(List tensors, size_t n) {
    std::vector<at::Tensor> all;
    all.reserve(n);
    for (size_t i = 0; i < n; i++) all.push_back(*tensors[i]);
    return all;
}

std::optional<at::Tensor> maybe(const at::Tensor* tensor) {
    return tensor ? std::optional<at::Tensor>(*tensor) : std::nullopt;
}

}  // namespace

extern "C" {

// Whether convolutions and matrix products of f32 on a GPU may round what they multiply to TF32, 10
// bits of mantissa. libtorch's own start is neither: convolutions may, matrix products may not.
//
// These setters, and not setFloat32Precision alone: libtorch_cuda 2.11 still asks allowTF32CuBLAS,
// which throws unless the old flag and the new table agree, and these set both.
void forebay_allow_tf32(bool allow) noexcept {
    at::globalContext().setAllowTF32CuDNN(allow);
    at::globalContext().setAllowTF32CuBLAS(allow);
}

// Whether both may.
bool forebay_tf32() noexcept {
    const auto tf32 = [](at::Float32Op op) {
        return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) ==
            at::Float32Precision::TF32;
    };
    return tf32(at::Float32Op::CONV) && tf32(at::Float32Op::MATMUL);
}

// Autocast of this thread on CPU or GPU, to `kind` (an at::ScalarType). `was` takes what
// forebay_autocast_exit needs to bring back what held before.
struct Autocast {
    bool enabled;
    bool cached;
    int8_t kind;
};

// Casts of weights are not kept for a second use: a forward pass has none, and one that was made
// without gradients would stand, in the same region, for one that needs them.
char* forebay_autocast_enter(bool cuda, int8_t kind, Autocast* was) noexcept {
    return guarded([&] {
        const auto device = cuda ? at::kCUDA : at::kCPU;
        *was = {at::autocast::is_autocast_enabled(device),
                at::autocast::is_autocast_cache_enabled(),
                static_cast<int8_t>(at::autocast::get_autocast_dtype(device))};
        at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(kind));
        at::autocast::set_autocast_cache_enabled(false);
        at::autocast::set_autocast_enabled(device, true);
    });
}

char* forebay_autocast_exit(bool cuda, const Autocast* was) noexcept {
    return guarded([&] {
        const auto device = cuda ? at::kCUDA : at::kCPU;
        at::autocast::set_autocast_enabled(device, was->enabled);
        at::autocast::set_autocast_cache_enabled(was->cached);
        at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(was->kind));
    });
}

// Adds to the gradients of the leaves behind `output`, given its own.
char* forebay_backward(const at::Tensor* output, const at::Tensor* gradient) noexcept {
    return guarded([&] { torch::autograd::backward({*output}, {*gradient}); });
}

// Frees the gradients of `tensors`; they are as if no backward pass had been.
char* forebay_forget(List tensors, size_t n) noexcept {
    return guarded([&] {
        for (size_t i = 0; i < n; i++) tensors[i]->mutable_grad().reset();
    });
}

// One step of SGD without dampening. `buffers` start at zero. Where `found_inf` holds 1 nothing
// changes.
char* forebay_sgd(List parameters, List gradients, List buffers, size_t n, double rate,
                  double momentum, double weight_decay, bool nesterov,
                  const at::Tensor* found_inf) noexcept {
    return guarded([&] {
        const auto buffer = momentum == 0 ? std::vector<at::Tensor>() : list(buffers, n);
        at::_fused_sgd_(list(parameters, n), list(gradients, n), buffer, weight_decay, momentum,
                        rate, 0.0, nesterov, false, false, std::nullopt, maybe(found_inf));
    });
}

// One step of Adam, or AdamW where `decoupled`. `steps` hold, each in an f32, how many came before,
// and are raised. Where `found_inf` holds 1 nothing changes.
char* forebay_adam(List parameters, List gradients, List first, List second, List steps, size_t n,
                   bool decoupled, double rate, double beta1, double beta2, double epsilon,
                   double weight_decay, const at::Tensor* found_inf) noexcept {
    return guarded([&] {
        const auto counts = list(steps, n);
        const auto step = [&](auto update) {
            update(list(parameters, n), list(gradients, n), list(first, n), list(second, n),
                   at::TensorList(), counts, rate, beta1, beta2, weight_decay, epsilon, false,
                   false, std::nullopt, maybe(found_inf));
        };
        at::_foreach_add_(counts, 1);
        if (decoupled) {
            step([](auto&&... a) { at::_fused_adamw_(a...); });
        } else {
            step([](auto&&... a) { at::_fused_adam_(a...); });
        }
        if (found_inf) at::_foreach_sub_(counts, std::vector<at::Tensor>(n, *found_inf));
    });
}

// The L2 norm over all values of `tensors`; there is at least one.
char* forebay_norm(List tensors, size_t n, at::Tensor** out) noexcept {
    return guarded([&] {
        const auto norms = at::_foreach_norm(list(tensors, n), 2);
        *out = new at::Tensor(at::linalg_vector_norm(at::stack(norms), 2));
    });
}

// Multiplies the gradients by `inverse` and sets `found_inf` to 1 where one is not finite.
char* forebay_unscale(List gradients, size_t n, at::Tensor* found_inf,
                      const at::Tensor* inverse) noexcept {
    return guarded([&] {
        const auto all = list(gradients, n);
        at::_amp_foreach_non_finite_check_and_unscale_(all, *found_inf, *inverse);
    });
}

// A tensor over `data`, dense, on the CPU or on GPU `device`. `free` is called with `owner` when
// nothing refers to it any more, on whatever thread that is, and also where this fails.
char* forebay_blob(void* data, const int64_t* shape, size_t axes, int8_t kind, int device,
                   void (*free)(void*), void* owner, at::Tensor** out) noexcept {
    // Freed with the last copy of the deleter, once, wherever that was when something threw.
    const auto held = std::shared_ptr<void>(owner, free);
    return guarded([&] {
        const auto place = device < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, device);
        const auto options =
            at::TensorOptions().dtype(static_cast<at::ScalarType>(kind)).device(place);
        *out = new at::Tensor(at::for_blob(data, at::IntArrayRef(shape, axes))
                                  .deleter([held](void*) {})
                                  .options(options)
                                  .target_device(place)
                                  .make_tensor());
    });
}

}  // extern "C"
