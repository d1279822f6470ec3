// The functions behind the interposed ones, and the accessors that the recorder asks. Found at first use.
#pragma once

#include <atomic>

#include "ggml_names.hpp"

namespace hbt::real {

// The address of a symbol in another object than this library; null where none defines it.
void * find(const char * symbol);
// How many objects have been loaded so far: while that is the same, what was not found is not there.
uint64_t loads();
// In how many other objects it is defined. With two copies of ggml all calls go to the one that was found first.
int count(const char * symbol);
// Ends the program: it called a function through us that nobody defines.
[[noreturn]] void missing(const char * symbol);

template <class F> class Symbol;

template <class R, class... A> class Symbol<R(A...)> {
  public:
    constexpr explicit Symbol(const char * name) : name_(name) {}

    // Not found is not remembered beyond the next dlopen: the library that has it may be loaded later.
    explicit operator bool() { return get() != nullptr; }

    R operator()(A... arguments) {
        auto * function = get();
        if (function == nullptr) missing(name_);
        return function(arguments...);
    }

  private:
    using Pointer = R (*)(A...);

    Pointer get() {
        Pointer function = address_.load(std::memory_order_relaxed);
        if (function == nullptr) {
            uint64_t now = loads();
            if (missed_at_.load(std::memory_order_relaxed) == now) return nullptr;
            function = reinterpret_cast<Pointer>(find(name_));
            address_.store(function, std::memory_order_relaxed);
            if (function == nullptr) missed_at_.store(now, std::memory_order_relaxed);
        }
        return function;
    }

    const char * name_;
    std::atomic<Pointer> address_{nullptr};
    std::atomic<uint64_t> missed_at_{0};
};

#define HBT_REAL(name, ...) inline Symbol<__VA_ARGS__> name{#name}

// tensors and graphs
HBT_REAL(ggml_init, ggml_context *(ggml_init_params));
HBT_REAL(ggml_free, void(ggml_context *));
HBT_REAL(ggml_tensor_overhead, size_t());
HBT_REAL(ggml_graph_overhead_custom, size_t(size_t, bool));
HBT_REAL(ggml_new_tensor_1d, ggml_tensor *(ggml_context *, int, int64_t));
HBT_REAL(ggml_new_tensor_4d, ggml_tensor *(ggml_context *, int, int64_t, int64_t, int64_t, int64_t));
HBT_REAL(ggml_view_1d, ggml_tensor *(ggml_context *, ggml_tensor *, int64_t, size_t));
HBT_REAL(ggml_add, ggml_tensor *(ggml_context *, ggml_tensor *, ggml_tensor *));
HBT_REAL(ggml_new_graph_custom, ggml_cgraph *(ggml_context *, size_t, bool));
HBT_REAL(ggml_build_forward_expand, void(ggml_cgraph *, ggml_tensor *));
HBT_REAL(ggml_set_input, void(ggml_tensor *));
HBT_REAL(ggml_set_output, void(ggml_tensor *));
HBT_REAL(ggml_get_name, const char *(const ggml_tensor *));
HBT_REAL(ggml_nbytes, size_t(const ggml_tensor *));
HBT_REAL(ggml_op_desc, const char *(const ggml_tensor *));
HBT_REAL(ggml_type_name, const char *(int));
HBT_REAL(ggml_type_size, size_t(int));
HBT_REAL(ggml_blck_size, int64_t(int));
HBT_REAL(ggml_graph_n_nodes, int(ggml_cgraph *));
HBT_REAL(ggml_graph_node, ggml_tensor *(ggml_cgraph *, int));
HBT_REAL(ggml_graph_nodes, ggml_tensor **(ggml_cgraph *));
HBT_REAL(ggml_graph_next_uid, uint64_t());
HBT_REAL(ggml_version, const char *());
HBT_REAL(ggml_commit, const char *());
HBT_REAL(llama_print_system_info, const char *());

// buffers
HBT_REAL(ggml_backend_buft_name, const char *(ggml_backend_buffer_type *));
HBT_REAL(ggml_backend_buft_alloc_buffer, ggml_backend_buffer *(ggml_backend_buffer_type *, size_t));
HBT_REAL(ggml_backend_buft_get_device, ggml_backend_device *(ggml_backend_buffer_type *));
HBT_REAL(ggml_backend_buffer_name, const char *(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_free, void(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_get_base, void *(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_get_size, size_t(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_get_type, ggml_backend_buffer_type *(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_get_usage, int(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_set_usage, void(ggml_backend_buffer *, int));
HBT_REAL(ggml_backend_buffer_is_host, bool(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_is_multi_buffer, bool(ggml_backend_buffer *));
HBT_REAL(ggml_backend_buffer_clear, void(ggml_backend_buffer *, uint8_t));
HBT_REAL(ggml_backend_buffer_reset, void(ggml_backend_buffer *));
HBT_REAL(ggml_backend_cpu_buffer_from_ptr, ggml_backend_buffer *(void *, size_t));
HBT_REAL(ggml_backend_cpu_buffer_type, ggml_backend_buffer_type *());
HBT_REAL(ggml_backend_tensor_alloc, int(ggml_backend_buffer *, ggml_tensor *, void *));
HBT_REAL(ggml_backend_view_init, int(ggml_tensor *));

// devices and queues
HBT_REAL(ggml_backend_dev_by_type, ggml_backend_device *(int));
HBT_REAL(ggml_backend_dev_count, size_t());
HBT_REAL(ggml_backend_dev_get, ggml_backend_device *(size_t));
HBT_REAL(ggml_backend_dev_name, const char *(ggml_backend_device *));
HBT_REAL(ggml_backend_dev_type, int(ggml_backend_device *));
HBT_REAL(ggml_backend_dev_get_props, void(ggml_backend_device *, void *));
HBT_REAL(ggml_backend_dev_backend_reg, ggml_backend_reg *(ggml_backend_device *));
HBT_REAL(ggml_backend_reg_name, const char *(ggml_backend_reg *));
HBT_REAL(ggml_backend_dev_buffer_type, ggml_backend_buffer_type *(ggml_backend_device *));
HBT_REAL(ggml_backend_dev_host_buffer_type, ggml_backend_buffer_type *(ggml_backend_device *));
HBT_REAL(ggml_backend_dev_supports_buft, bool(ggml_backend_device *, ggml_backend_buffer_type *));
HBT_REAL(ggml_backend_dev_buffer_from_host_ptr, ggml_backend_buffer *(ggml_backend_device *, void *, size_t, size_t));
HBT_REAL(ggml_backend_dev_init, ggml_backend *(ggml_backend_device *, const char *));
HBT_REAL(ggml_backend_name, const char *(ggml_backend *));
HBT_REAL(ggml_backend_get_device, ggml_backend_device *(ggml_backend *));
HBT_REAL(ggml_backend_free, void(ggml_backend *));
HBT_REAL(ggml_backend_synchronize, void(ggml_backend *));
HBT_REAL(ggml_backend_graph_compute_async, int(ggml_backend *, ggml_cgraph *));
HBT_REAL(ggml_backend_graph_plan_create, void *(ggml_backend *, ggml_cgraph *));
HBT_REAL(ggml_backend_graph_plan_free, void(ggml_backend *, void *));
HBT_REAL(ggml_backend_graph_plan_compute, int(ggml_backend *, void *));
HBT_REAL(ggml_backend_event_new, ggml_backend_event *(ggml_backend_device *));
HBT_REAL(ggml_backend_event_free, void(ggml_backend_event *));
HBT_REAL(ggml_backend_event_record, void(ggml_backend_event *, ggml_backend *));
HBT_REAL(ggml_backend_event_wait, void(ggml_backend *, ggml_backend_event *));
HBT_REAL(ggml_backend_event_synchronize, void(ggml_backend_event *));

// transfers
HBT_REAL(ggml_backend_tensor_set, void(ggml_tensor *, const void *, size_t, size_t));
HBT_REAL(ggml_backend_tensor_get, void(const ggml_tensor *, void *, size_t, size_t));
HBT_REAL(ggml_backend_tensor_memset, void(ggml_tensor *, uint8_t, size_t, size_t));
HBT_REAL(ggml_backend_tensor_set_2d, void(ggml_tensor *, const void *, size_t, size_t, size_t, size_t, size_t));
HBT_REAL(ggml_backend_tensor_get_2d, void(const ggml_tensor *, void *, size_t, size_t, size_t, size_t, size_t));
HBT_REAL(ggml_backend_tensor_copy, void(const ggml_tensor *, ggml_tensor *));
HBT_REAL(ggml_backend_buffer_copy_tensor, bool(const ggml_tensor *, ggml_tensor *));
HBT_REAL(ggml_backend_tensor_set_async, void(ggml_backend *, ggml_tensor *, const void *, size_t, size_t));
HBT_REAL(ggml_backend_tensor_get_async, void(ggml_backend *, const ggml_tensor *, void *, size_t, size_t));
HBT_REAL(
    ggml_backend_tensor_set_2d_async,
    void(ggml_backend *, ggml_tensor *, const void *, size_t, size_t, size_t, size_t, size_t)
);
HBT_REAL(
    ggml_backend_tensor_get_2d_async,
    void(ggml_backend *, const ggml_tensor *, void *, size_t, size_t, size_t, size_t, size_t)
);
HBT_REAL(ggml_backend_tensor_copy_async, void(ggml_backend *, ggml_backend *, const ggml_tensor *, ggml_tensor *));
HBT_REAL(ggml_backend_tensor_set_direct, void(ggml_tensor *, size_t, size_t));

// scheduler
HBT_REAL(
    ggml_backend_sched_new,
    ggml_backend_sched *(ggml_backend **, ggml_backend_buffer_type **, int, size_t, bool, bool)
);
HBT_REAL(ggml_backend_sched_free, void(ggml_backend_sched *));
HBT_REAL(ggml_backend_sched_get_n_copies, int(ggml_backend_sched *));
HBT_REAL(ggml_backend_sched_get_tensor_backend, ggml_backend *(ggml_backend_sched *, ggml_tensor *));
HBT_REAL(ggml_backend_sched_reset, void(ggml_backend_sched *));
HBT_REAL(ggml_backend_sched_reserve, bool(ggml_backend_sched *, ggml_cgraph *));
HBT_REAL(ggml_backend_sched_reserve_size, void(ggml_backend_sched *, ggml_cgraph *, size_t *));
HBT_REAL(ggml_backend_sched_set_eval_callback, void(ggml_backend_sched *, void *, void *));
HBT_REAL(ggml_backend_sched_alloc_graph, bool(ggml_backend_sched *, ggml_cgraph *));
HBT_REAL(ggml_backend_sched_graph_compute_async, int(ggml_backend_sched *, ggml_cgraph *));
HBT_REAL(ggml_backend_sched_prepare_inputs, void(ggml_backend_sched *));

#undef HBT_REAL

}  // namespace hbt::real
