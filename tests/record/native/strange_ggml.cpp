// A library with ggml's names whose structs are like no version's: what the probe must not make sense of.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {
char memory[64][1024];
int next = 0;
void * fresh() { return std::memset(memory[next++ % 64], 0, sizeof memory[0]); }
}  // namespace

struct Parameters {
    size_t size;
    void * memory;
    bool no_alloc;
};

extern "C" {
void * ggml_init(Parameters) { return fresh(); }
void ggml_free(void *) {}
size_t ggml_tensor_overhead() { return 400; }
size_t ggml_graph_overhead_custom(size_t, bool) { return 1024; }
void * ggml_new_tensor_1d(void *, int, int64_t) { return fresh(); }
void * ggml_new_tensor_4d(void *, int, int64_t, int64_t, int64_t, int64_t) { return fresh(); }
void * ggml_view_1d(void *, void *, int64_t, size_t) { return fresh(); }
void * ggml_add(void *, void *, void *) { return fresh(); }
void * ggml_new_graph_custom(void *, size_t, bool) { return fresh(); }
void ggml_build_forward_expand(void *, void *) {}
void ggml_set_input(void *) {}
void ggml_set_output(void *) {}
const char * ggml_get_name(const void * tensor) { return static_cast<const char *>(tensor) + 300; }
void * ggml_backend_cpu_buffer_from_ptr(void *, size_t) { return fresh(); }
int ggml_backend_tensor_alloc(void *, void *, void *) { return 0; }
void ggml_backend_buffer_free(void *) {}
void ggml_backend_synchronize(void *) {}
void ggml_backend_tensor_copy_async(void *, void *, const void *, void *) {}
void ggml_backend_tensor_set_async(void *, void *, const void *, size_t, size_t) {}
void ggml_backend_tensor_get_async(void *, const void *, void *, size_t, size_t) {}
}
