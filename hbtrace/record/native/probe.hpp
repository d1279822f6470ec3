// Where things are in this build's structs: found at start by asking its own functions, never assumed. A version that
// moved a field is found out here; one that the probe does not understand is recorded as nothing, with the reason.
#pragma once

#include <cstdint>
#include <cstring>

#include "ggml_names.hpp"

namespace hbt {

struct Layout {
    // byte offsets in a tensor
    int type = -1, ne = -1, nb = -1, flags = -1, src = -1, view_src = -1, data = -1, name = -1, buffer = -1;
    int sources = 0;
    uint32_t input_bit = 0, output_bit = 0, compute_bit = 0;  // compute_bit 0: this version computes every node
    // word index of a slot in a backend, -1 where this version has none
    int synchronize = -1, set_async = -1, get_async = -1, set_2d_async = -1, get_2d_async = -1, copy_async = -1;
    // byte offset of the four capability flags in a device's properties, and of the uid in a graph
    int capabilities = -1, uid = -1;
};

// The layout, or null where the probe failed (`probe_failure` says what it could not find). Call with the lock held.
const Layout * probed_layout();
inline const Layout * known_layout = nullptr;
inline const Layout * layout() { return known_layout != nullptr ? known_layout : probed_layout(); }
const char * probe_failure();

// The properties of a device need a registered CPU device to be understood, and the uid a graph of the scheduler's:
// both are found later than the rest.
int capabilities_offset();
// `before` and `after` are uids drawn around the making of this graph.
void learn_uid(const ggml_cgraph * graph, uint64_t before, uint64_t after);
int uid_offset();

template <class T> T field(const void * object, int offset) {
    T value;
    memcpy(&value, static_cast<const char *>(object) + offset, sizeof value);
    return value;
}

}  // namespace hbt
