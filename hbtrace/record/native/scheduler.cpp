#include "scheduler.hpp"

#include <string.h>

#include <algorithm>

#include "call.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"

namespace hbt {

namespace {

struct Schedulers {
    std::unordered_map<ggml_backend_sched *, Scheduler *> known;  // never destroyed: a thread may hold on to one
    std::unordered_map<const void *, ggml_backend_sched *> results;  // the program's graph handles
    int64_t next = 0;
    int64_t next_ubatch = 0;
    bool warmup = false;
};

Schedulers & all() {
    static Schedulers * schedulers = new Schedulers;
    return *schedulers;
}

// How many tokens: the one-dimensional I32 input of that name, or the columns of the embeddings'.
int64_t count_tokens(const Inputs & inputs) {
    for (const Input & input : inputs.list) {
        const char * name = reinterpret_cast<const char *>(input.tensor) + layout()->name;
        const int64_t * ne = reinterpret_cast<const int64_t *>(reinterpret_cast<const char *>(input.tensor) + layout()->ne);
        if (strncmp(name, "inp_tokens", 64) == 0) return ne[0];
        if (strncmp(name, "inp_embd", 64) == 0) return ne[1];
    }
    return inputs.tokens;
}

// Where the first input in host memory lies now: each slot is a place of its own. Null without one.
char * first_place(const Scheduler & scheduler) {
    for (const Input & input : scheduler.inputs.list) {
        if (input.host) return place_of(input.tensor).data;
    }
    return nullptr;
}

// No call tells the slot's number. They are entered in order, so a place not seen before is the next one.
int64_t slot_entered(Scheduler & scheduler) {
    char * place = first_place(scheduler);
    int64_t before = std::max<int64_t>(scheduler.slot, 0);
    int64_t next = scheduler.made.copies > 1 ? (before + 1) % scheduler.made.copies : int64_t(scheduler.slots.size());
    return scheduler.slots.try_emplace(place, next).first->second;
}

void define(const Scheduler & scheduler) {
    std::string ids;
    append_list(ids, scheduler.made.backends.begin(), scheduler.made.backends.end(), backend_of);
    Row row("sched");
    row->number("id", scheduler.id).raw("backends", ids).number("copies", scheduler.made.copies);
    if (!scheduler.made.cpu_buffer_type.empty()) row->text("cpu_buffer_type", scheduler.made.cpu_buffer_type);
    row->number("ring", scheduler.made.ring);
    row.define();
}

}  // namespace

Scheduler & scheduler_of(ggml_backend_sched * handle) {
    auto [at, fresh] = all().known.try_emplace(handle, nullptr);
    if (fresh) {
        at->second = new Scheduler;
        at->second->handle = handle;
    }
    Scheduler & scheduler = *at->second;
    if (scheduler.id < 0) {
        scheduler.id = all().next++;
        if (!scheduler.made.backends.empty()) define(scheduler);
    }
    return scheduler;
}

void scheduler_born(ggml_backend_sched * handle, Made made) {
    scheduler_died(handle);
    auto * scheduler = new Scheduler;
    scheduler->handle = handle;
    scheduler->made = std::move(made);
    all().known[handle] = scheduler;
    scheduler_of(handle);
}

void scheduler_died(ggml_backend_sched * scheduler) {
    auto at = all().known.find(scheduler);
    if (at == all().known.end()) return;
    at->second->handle = nullptr;
    at->second->inputs.list.clear();
    if (thread.scheduler == at->second) thread.scheduler = nullptr;
    for (auto result = all().results.begin(); result != all().results.end();) {
        result = result->second == scheduler ? all().results.erase(result) : std::next(result);
    }
    all().known.erase(at);
}

void prepare(Scheduler & scheduler) {
    thread.scheduler = &scheduler;
    if (!scheduler.preparing) {
        scheduler.preparing = true;
        scheduler.marked = scheduler.reused = false;
        scheduler.ubatch = all().next_ubatch++;
    }
    thread.ubatch = scheduler.ubatch;
}

void mark_ubatch(Scheduler & scheduler) {
    if (scheduler.marked) return;
    scheduler.marked = true;
    if (!wanted()) return;
    int64_t tokens = count_tokens(scheduler.inputs);
    Row row("ubatch");
    row->number("sched", scheduler.id).number("n", scheduler.ubatch);
    if (tokens >= 0) row->number("tokens", tokens);
    if (all().warmup) {
        row->text("phase", "warmup");
    } else if (tokens >= 0) {
        row->text("phase", tokens > 1 ? "prefill" : "decode");
    }
    row.happen(nullptr);
}

void mark_reuse(Scheduler & scheduler, const void * caller) {
    if (scheduler.allocated || scheduler.reused) return;
    scheduler.reused = true;
    write_marker("sched_reuse", scheduler, caller);
}

void slot_allocated(Scheduler & scheduler, int64_t slot) {
    scheduler.slot = slot;
    scheduler.slots.clear();
    if (char * place = first_place(scheduler)) scheduler.slots[place] = std::max<int64_t>(slot, 0);
}

void inputs_prepared(ggml_backend_sched * handle, const void * caller) {
    Scheduler & scheduler = scheduler_of(handle);
    prepare(scheduler);
    mark_reuse(scheduler, caller);
    bool rotated = false;
    for (const Input & input : scheduler.inputs.list) rotated |= input.host && place_of(input.tensor).data != input.data;
    if (rotated) {
        for (const Input & input : scheduler.inputs.list) tensor_of(input.tensor);
        scheduler.slot = slot_entered(scheduler);
    }
    if (!wanted()) return;
    Row row("sched_prepare");
    row->number("sched", scheduler.id);
    if (scheduler.slot >= 0) row->number("slot", scheduler.slot);
    row->flag("rotated", rotated);
    row.happen(caller);
}

int64_t scheduled_on(ggml_tensor * tensor) {
    if (!thread.computing || thread.scheduler == nullptr || !real::ggml_backend_sched_get_tensor_backend) return -1;
    ggml_backend_sched * handle = thread.scheduler->handle;
    ggml_backend * backend = handle ? real::ggml_backend_sched_get_tensor_backend(handle, tensor) : nullptr;
    return backend_of(backend);
}

void write_marker(const char * event, const Scheduler & scheduler, const void * caller) {
    if (!wanted()) return;
    Row row(event);
    row->number("sched", scheduler.id);
    row.happen(caller);
}

void open_bracket(const void * result, const void * caller) {
    auto known = all().results.find(result);
    // Never seen: the one that this thread has just allocated for, which is so but for a reused graph of another.
    Scheduler * scheduler = known == all().results.end() ? thread.scheduler : &scheduler_of(known->second);
    if (scheduler == nullptr) return;
    if (scheduler->id < 0 && scheduler->handle != nullptr) scheduler_of(scheduler->handle);  // in a fork's child
    thread.result = result;
    prepare(*scheduler);
    mark_reuse(*scheduler, caller);
    mark_ubatch(*scheduler);
    begin_inputs(*scheduler);
    thread.bracket = true;
}

void close_bracket(const void * caller) {
    if (!thread.bracket) return;
    thread.bracket = false;
    if (thread.scheduler == nullptr) return;
    end_inputs(*thread.scheduler, caller);
    thread.scheduler->bracketed = true;
}

void begin_compute(ggml_backend_sched * handle, ggml_cgraph * graph, const void * caller) {
    Scheduler & scheduler = scheduler_of(handle);
    prepare(scheduler);
    if (thread.result != nullptr) {
        all().results[thread.result] = handle;
        thread.result = nullptr;
    }
    if (scheduler.inputs.list.empty()) find_inputs(scheduler.inputs, graph);
    if (!scheduler.bracketed) {
        mark_reuse(scheduler, caller);
        mark_ubatch(scheduler);
        end_inputs(scheduler, caller);
    }
    write_marker("sched_compute", scheduler, caller);
}

void set_warmup(bool on) { all().warmup = on; }

void forget_schedulers() {
    all().next = all().next_ubatch = 0;
    for (auto & [handle, scheduler] : all().known) {
        scheduler->id = -1;
        scheduler->preparing = false;
    }
}

}  // namespace hbt
