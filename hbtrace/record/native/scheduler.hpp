// Schedulers: which ubatch is under way, which split, and the markers around them. The lock is held.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ggml_names.hpp"
#include "inputs.hpp"

namespace hbt {

// What its row is made of: it is written again in a fork's child.
struct Made {
    std::vector<ggml_backend *> backends;  // empty: it was made before anything was recorded, and has no row
    std::string cpu_buffer_type;
    int copies = 1;  // of each input
    int ring = 0;
};

struct Scheduler {
    int64_t id = -1;
    ggml_backend_sched * handle = nullptr;  // null: freed
    Made made;
    int64_t ubatch = -1;      // of the last preparation
    bool preparing = false;   // between the first step of an ubatch's preparation and its compute
    bool allocated = false;   // in this preparation
    bool bracketed = false;   // its inputs were set inside the program's input-setting call
    bool marked = false;      // its `ubatch` row is written
    bool pieces = false;      // a callback of the program's looks at nodes, and splits are computed in pieces
    bool reused = false;      // its `sched_reuse` row is written
    int64_t slot = -1;        // in use, where the names of the copies tell it or the inputs are moved
    std::map<char *, int64_t> slots;  // by where the first input lies, since the last allocation
    uint64_t uid_before = 0, uid_after = 0;  // drawn around the last allocation
    Inputs inputs;
};

// Its row is written at first sight.
Scheduler & scheduler_of(ggml_backend_sched * scheduler);
void scheduler_born(ggml_backend_sched * scheduler, Made made);
void scheduler_died(ggml_backend_sched * scheduler);

// A step of preparation: the first one begins the next ubatch.
void prepare(Scheduler & scheduler);
// The queue that this thread's scheduler put a tensor on, -1 if none does.
int64_t scheduled_on(ggml_tensor * tensor);
void set_warmup(bool on);
// The program begins and ends setting its inputs. `result` is its graph's handle: which scheduler's is learnt.
void open_bracket(const void * result, const void * caller);
void close_bracket(const void * caller);
// The scheduler begins to compute; the end is in the hook.
void begin_compute(ggml_backend_sched * handle, ggml_cgraph * graph, const void * caller);
void write_marker(const char * event, const Scheduler & scheduler, const void * caller);
// The `ubatch` row, once its inputs say how many tokens it has.
void mark_ubatch(Scheduler & scheduler);
// The `sched_reuse` row, at the first step of a preparation that allocates nothing.
void mark_reuse(Scheduler & scheduler, const void * caller);
// The scheduler has moved the inputs of a graph in use to another slot, or has left them where they are.
void inputs_prepared(ggml_backend_sched * handle, const void * caller);
// It has allocated: the slot is -1 where nothing says which.
void slot_allocated(Scheduler & scheduler, int64_t slot);

}  // namespace hbt
