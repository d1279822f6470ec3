#include "probe.hpp"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <array>
#include <utility>
#include <vector>

#include "call.hpp"
#include "real.hpp"

namespace hbt {

namespace {

Layout found;
const char * failure = nullptr;
thread_local sigjmp_buf * abort_target = nullptr;  // set while the probe calls what may assert

// ---- tensors

constexpr int most = 512;  // bytes of a tensor that are looked at

int find_word(const void * object, const void * value, int limit, int from = 0) {
    for (int at = from; at + 8 <= limit; at += 8) {
        if (field<const void *>(object, at) == value) return at;
    }
    return -1;
}

// The bits that a call changed in the tensor's flags, which lie at `offset` (found, if it is still -1).
uint32_t changed_bits(const std::array<char, most> & before, const ggml_tensor * tensor, int limit, int & offset) {
    for (int at = offset < 0 ? 0 : offset; at + 4 <= limit; at += 4) {
        uint32_t changed = field<uint32_t>(before.data(), at) ^ field<uint32_t>(tensor, at);
        if (changed != 0) {
            offset = at;
            return changed;
        }
        if (offset >= 0) break;
    }
    return 0;
}

std::array<char, most> snapshot(const ggml_tensor * tensor, int limit) {
    std::array<char, most> copy{};
    memcpy(copy.data(), tensor, size_t(limit));
    return copy;
}

void probe_shape(ggml_context * context, int limit) {
    // Sizes and, from them, strides that occur nowhere else in a tensor; F32 is type 0, I32 is 26 in every version.
    auto * tensor = real::ggml_new_tensor_4d(context, 0, 23, 29, 31, 37);
    const int64_t ne[4] = {23, 29, 31, 37};
    const uint64_t nb[4] = {4, 92, 2668, 82708};
    for (int at = 0; at + 32 <= limit; at += 8) {
        const char * here = reinterpret_cast<const char *>(tensor) + at;
        if (memcmp(here, ne, sizeof ne) == 0) found.ne = at;
        if (memcmp(here, nb, sizeof nb) == 0) found.nb = at;
    }
    auto * other = real::ggml_new_tensor_4d(context, 26, 23, 29, 31, 37);
    for (int at = 0; at + 4 <= limit && found.type < 0; at += 4) {
        if (field<int>(tensor, at) == 0 && field<int>(other, at) == 26) found.type = at;
    }
}

void probe_links(ggml_context * context, int limit, char * memory, ggml_backend_buffer * buffer) {
    auto * a = real::ggml_new_tensor_1d(context, 0, 16);
    auto * b = real::ggml_new_tensor_1d(context, 0, 16);
    auto * sum = real::ggml_add(context, a, b);
    auto * view = real::ggml_view_1d(context, a, 3, 20);
    found.name = int(real::ggml_get_name(a) - reinterpret_cast<const char *>(a));
    for (int at = 0; at + 16 <= limit && found.src < 0; at += 8) {
        if (field<void *>(sum, at) == a && field<void *>(sum, at + 8) == b) found.src = at;
    }
    int first = find_word(view, a, limit);
    found.view_src = first == found.src ? find_word(view, a, limit, first + 8) : first;
    found.sources = (found.view_src - found.src) / 8;
    real::ggml_backend_tensor_alloc(buffer, a, memory + 128);
    found.buffer = find_word(a, buffer, limit);
    found.data = find_word(a, memory + 128, limit);
}

void probe_flags(ggml_context * context, int limit) {
    auto * a = real::ggml_new_tensor_1d(context, 0, 16);
    auto before = snapshot(a, limit);
    real::ggml_set_input(a);
    found.input_bit = changed_bits(before, a, limit, found.flags);
    before = snapshot(a, limit);
    real::ggml_set_output(a);
    found.output_bit = changed_bits(before, a, limit, found.flags);
    auto * node = real::ggml_add(context, a, a);
    before = snapshot(node, limit);
    real::ggml_build_forward_expand(real::ggml_new_graph_custom(context, 16, false), node);
    found.compute_bit = changed_bits(before, node, limit, found.flags);
}

// ---- vtable slots: a backend whose every slot is a numbered function

int slot_hit;
template <size_t N> long stub() {
    slot_hit = int(N);
    return 1;
}
template <size_t... N> void fill(void ** words, std::index_sequence<N...>) {
    ((words[N] = reinterpret_cast<void *>(&stub<N>)), ...);
}

template <class Call> int slot_of(Call && call) {
    slot_hit = -1;
    call();
    return slot_hit;
}

void probe_slots(ggml_tensor * a, ggml_tensor * b, char * memory) {
    static void * words[48];
    fill(words, std::make_index_sequence<48>());
    auto * fake = reinterpret_cast<ggml_backend *>(words);
    found.synchronize = slot_of([&] { real::ggml_backend_synchronize(fake); });
    found.copy_async = slot_of([&] { real::ggml_backend_tensor_copy_async(fake, fake, a, b); });
    found.set_async = slot_of([&] { real::ggml_backend_tensor_set_async(fake, a, memory, 0, 4); });
    found.get_async = slot_of([&] { real::ggml_backend_tensor_get_async(fake, a, memory, 0, 4); });
    if (real::ggml_backend_tensor_set_2d_async && real::ggml_backend_tensor_get_2d_async) {
        found.set_2d_async =
            slot_of([&] { real::ggml_backend_tensor_set_2d_async(fake, a, memory, 0, 4, 2, 8, 8); });
        found.get_2d_async =
            slot_of([&] { real::ggml_backend_tensor_get_2d_async(fake, a, memory, 0, 4, 2, 8, 8); });
    }
}

const char * first_gap() {
    if (found.type < 0) return "the type of a tensor";
    if (found.ne < 0 || found.nb < 0) return "the shape of a tensor";
    if (found.src < 0 || found.sources < 2 || found.sources > 64) return "the sources of a tensor";
    if (found.view_src < 0) return "the tensor that a view is of";
    if (found.data < 0 || found.buffer < 0) return "the place of a tensor";
    if (found.flags < 0 || found.input_bit == 0) return "the flags of a tensor";
    if (found.name < 0 || found.name >= most) return "the name of a tensor";
    if (found.synchronize < 0) return "the backend's slot of synchronize";
    if (found.copy_async < 0) return "the backend's slot of cpy_tensor_async";
    if (found.set_async < 0 || found.get_async < 0) return "the backend's slots of set and get_tensor_async";
    return nullptr;
}

const char * run_probe() {
    size_t overhead = real::ggml_tensor_overhead();
    if (overhead > most) return "a tensor of a size that makes sense";
    int limit = int(overhead);
    std::vector<char> arena((1 << 16) + real::ggml_graph_overhead_custom(16, false));
    alignas(64) static char memory[4096];
    auto * context = real::ggml_init({arena.size(), arena.data(), true});
    auto * buffer = real::ggml_backend_cpu_buffer_from_ptr(memory, sizeof memory);
    if (context == nullptr || buffer == nullptr) return "a context of its own";
    probe_shape(context, limit);
    probe_links(context, limit, memory, buffer);
    probe_flags(context, limit);
    auto * a = real::ggml_new_tensor_1d(context, 0, 16);
    auto * b = real::ggml_new_tensor_1d(context, 0, 16);
    real::ggml_backend_tensor_alloc(buffer, a, memory);
    real::ggml_backend_tensor_alloc(buffer, b, memory + 1024);
    probe_slots(a, b, memory);
    real::ggml_backend_buffer_free(buffer);
    real::ggml_free(context);
    return first_gap();
}

const char * probe_guarded() {
    sigjmp_buf target;
    if (sigsetjmp(target, 0) != 0) {
        abort_target = nullptr;
        return "a way past an assertion of this version";
    }
    abort_target = &target;
    const char * result = run_probe();
    abort_target = nullptr;
    return result;
}

int find_capabilities(ggml_backend_device * cpu) {
    // The CPU device takes host pointers and can do nothing else of the four: 0 0 1 0, behind four words and the type.
    unsigned char properties[256];
    memset(properties, 0xaa, sizeof properties);
    real::ggml_backend_dev_get_props(cpu, properties);
    for (int at = 36; at + 4 <= 128; at += 4) {
        const unsigned char * flag = properties + at;
        if (flag[0] == 0 && flag[1] == 0 && flag[2] == 1 && flag[3] == 0) return at;
    }
    return -1;
}

}  // namespace

const Layout * probed_layout() {
    static bool probed = false;
    if (!probed) {
        probed = true;
        Inside inside;
        failure = probe_guarded();
        if (failure == nullptr) known_layout = &found;
    }
    return known_layout;
}

const char * probe_failure() { return failure; }

int capabilities_offset() {
    if (found.capabilities < 0 && real::ggml_backend_dev_by_type && real::ggml_backend_dev_get_props) {
        // 0 is the CPU's type in every version.
        if (auto * cpu = real::ggml_backend_dev_by_type(0)) found.capabilities = find_capabilities(cpu);
    }
    return found.capabilities;
}

void learn_uid(const ggml_cgraph * graph, uint64_t before, uint64_t after) {
    // Drawn uids are consecutive: only the graph's own lies between. One sighting could be chance, so two must agree.
    static int candidate = -1;
    if (found.uid >= 0 || after <= before + 1) return;
    int sighted = -1;
    for (int at = 24; at + 8 <= 160; at += 8) {
        uint64_t word = field<uint64_t>(graph, at);
        if (word <= before || word >= after) continue;
        if (sighted >= 0) return;
        sighted = at;
    }
    if (sighted >= 0 && sighted == candidate) found.uid = sighted;
    candidate = sighted;
}

int uid_offset() { return found.uid; }

}  // namespace hbt

// An assertion of ggml ends the program. While the probe runs it only ends the probe.
HBT_EXPORT __attribute__((noreturn)) void ggml_abort(const char * file, int line, const char * format, ...) {
    if (hbt::abort_target != nullptr) siglongjmp(*hbt::abort_target, 1);
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (void * real = hbt::real::find("ggml_abort")) {
        reinterpret_cast<void (*)(const char *, int, const char *, ...)>(real)(file, line, "%s", message);
    }
    abort();
}
