// Interposed: the scheduler, and the program's input-setting call. These are frames around other events.
#include "call.hpp"
#include "exact.hpp"
#include "graphs.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"
#include "scheduler.hpp"

#include <string.h>

#include <string>
#include <type_traits>

using namespace hbt;

namespace {

uint64_t draw_uid() { return real::ggml_graph_next_uid ? real::ggml_graph_next_uid() : 0; }

// The number behind the second `#` of a name such as `CUDA0#inp_pos#1`; -1 without.
int64_t slot_in(const char * name) {
    size_t length = strnlen(name, 64);
    const void * first = memchr(name, '#', length);
    const char * last = static_cast<const char *>(memrchr(name, '#', length));
    if (first == nullptr || first == last) return -1;
    std::string digits(last + 1, name + length);
    bool number = !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string::npos;
    return number ? std::stol(digits) : -1;
}

// The slot that the scheduler's copies of this graph's inputs were given: their names end with it.
int64_t slot_of(ggml_cgraph * graph) {
    int count = node_count(graph);
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < layout()->sources; s++) {
            ggml_tensor * source = source_at(node_at(graph, i), s);
            if (source == nullptr) continue;
            int64_t slot = slot_in(reinterpret_cast<const char *>(source) + layout()->name);
            if (slot >= 0) return slot;
        }
    }
    return -1;
}

void write_allocation(Scheduler & scheduler, ggml_cgraph * graph, bool reserve, bool realloc, const void * caller) {
    graphs_may_change();
    int64_t slot = reserve ? -1 : slot_of(graph);
    if (!reserve) slot_allocated(scheduler, slot);
    if (!wanted() && !reserve) return;
    std::string ids;
    if (!reserve) {
        const auto & inputs = scheduler.inputs.list;
        append_list(ids, inputs.begin(), inputs.end(), [](const Input & input) { return tensor_of(input.tensor); });
    }
    uint64_t uid = uid_offset() < 0 || graph == nullptr ? 0 : field<uint64_t>(graph, uid_offset());
    Row row("sched_alloc");
    row->number("sched", scheduler.id);
    if (uid != 0) row->number("graph_uid", int64_t(uid));
    if (slot >= 0) row->number("slot", slot);
    row->flag("reserve", reserve).flag("realloc", realloc);
    if (!reserve) row->raw("inputs", ids);
    row.happen(caller);
}

// A program that has loaded ggml twice is told so: nothing here can tell the two apart.
void note_other_ggml(const void * caller) {
    int count = real::count("ggml_backend_sched_new");
    if (count < 2) return;
    std::string attrs;
    Json(attrs).number("count", count).close();
    Row row("note");
    row->text("what", "several_ggml").raw("attrs", attrs);
    row.happen(caller);
}

// Inside the scheduler's compute, also where a backend leaves it by throwing.
class Computing {
  public:
    explicit Computing(bool on) {
        if (!on) return;
        thread.computing = true;
        thread.split = 0;
        thread.pieces = thread.scheduler->pieces;
        thread.computed = nullptr;
    }
    ~Computing() {
        thread.computing = false;
        thread.split = -1;
    }
};

template <class Reserve> auto reserving(ggml_backend_sched * handle, const void * caller, Reserve && reserve) {
    uint64_t lives = buffer_lives();
    auto finish = [&] {
        Recording recording;
        if (!recording) return;
        Inside inside;
        thread.ubatch = -1;
        write_allocation(scheduler_of(handle), nullptr, true, lives != buffer_lives(), caller);
    };
    if constexpr (std::is_void_v<decltype(reserve())>) {
        reserve();
        if (thread.depth == 0) finish();
    } else {
        auto result = reserve();
        if (thread.depth == 0) finish();
        return result;
    }
}

}  // namespace

HBT_EXPORT ggml_backend_sched * ggml_backend_sched_new(
    ggml_backend ** backends, ggml_backend_buffer_type ** types, int count, size_t size, bool parallel, bool offload
) {
    auto * made = real::ggml_backend_sched_new(backends, types, count, size, parallel, offload);
    if (thread.depth > 0 || made == nullptr) return made;
    Recording recording;
    if (!recording) return made;
    Inside inside;
    Made with;
    with.backends.assign(backends, backends + count);
    with.copies = real::ggml_backend_sched_get_n_copies ? real::ggml_backend_sched_get_n_copies(made) : 1;
    if (types != nullptr && types[count - 1] != nullptr) {
        with.cpu_buffer_type = real::ggml_backend_buft_name(types[count - 1]);
    }
    // Several copies without parallel splits are a ring of inputs.
    with.ring = !parallel && with.copies > 1 ? with.copies : 0;
    scheduler_born(made, std::move(with));
    note_other_ggml(HBT_CALLER);
    return made;
}

HBT_EXPORT void ggml_backend_sched_free(ggml_backend_sched * handle) {
    if (thread.depth == 0 && handle != nullptr) {
        Recording recording;
        if (recording) scheduler_died(handle);
    }
    real::ggml_backend_sched_free(handle);
}

HBT_EXPORT bool ggml_backend_sched_alloc_graph(ggml_backend_sched * handle, ggml_cgraph * graph) {
    if (thread.depth > 0) return real::ggml_backend_sched_alloc_graph(handle, graph);
    const void * caller = HBT_CALLER;
    {
        Recording recording;
        if (recording) {
            Inside inside;
            Scheduler & scheduler = scheduler_of(handle);
            prepare(scheduler);
            find_inputs(scheduler.inputs, graph);
            scheduler.uid_before = draw_uid();
        }
    }
    uint64_t lives = buffer_lives();
    bool done = real::ggml_backend_sched_alloc_graph(handle, graph);
    Recording recording;
    if (recording) {
        Inside inside;
        Scheduler & scheduler = scheduler_of(handle);
        scheduler.uid_after = draw_uid();
        scheduler.allocated = true;
        place_inputs(scheduler.inputs, graph);
        write_allocation(scheduler, graph, false, lives != buffer_lives(), caller);
    }
    return done;
}

HBT_EXPORT bool ggml_backend_sched_reserve(ggml_backend_sched * handle, ggml_cgraph * graph) {
    const void * caller = HBT_CALLER;
    return reserving(handle, caller, [&] { return real::ggml_backend_sched_reserve(handle, graph); });
}

HBT_EXPORT void ggml_backend_sched_reserve_size(ggml_backend_sched * handle, ggml_cgraph * graph, size_t * sizes) {
    const void * caller = HBT_CALLER;
    reserving(handle, caller, [&] { real::ggml_backend_sched_reserve_size(handle, graph, sizes); });
}

HBT_EXPORT void ggml_backend_sched_reset(ggml_backend_sched * handle) {
    if (thread.depth == 0) {
        Recording recording;
        if (recording) {
            Inside inside;
            graphs_may_change();
            scheduler_of(handle).inputs.list.clear();  // the graph that they are of may be gone
        }
    }
    real::ggml_backend_sched_reset(handle);
}

HBT_EXPORT void ggml_backend_sched_set_eval_callback(ggml_backend_sched * handle, void * callback, void * data) {
    if (thread.depth == 0) {
        Recording recording;
        if (recording) {
            Inside inside;
            scheduler_of(handle).pieces = callback != nullptr;
        }
    }
    real::ggml_backend_sched_set_eval_callback(handle, callback, data);
}

HBT_EXPORT int ggml_backend_sched_graph_compute_async(ggml_backend_sched * handle, ggml_cgraph * graph) {
    if (thread.depth > 0) return real::ggml_backend_sched_graph_compute_async(handle, graph);
    const void * caller = HBT_CALLER;
    bool on = false;
    {
        Recording recording;
        if (recording) {
            Inside inside;
            on = true;
            begin_compute(handle, graph, caller);
        }
    }
    int status;
    {
        Computing computing(on);
        status = real::ggml_backend_sched_graph_compute_async(handle, graph);
    }
    if (!on) return status;
    Recording recording;
    if (recording) {
        Inside inside;
        Scheduler & scheduler = scheduler_of(handle);
        thread.ubatch = scheduler.ubatch;
        write_marker("sched_compute_end", scheduler, caller);
        scheduler.preparing = scheduler.allocated = scheduler.bracketed = false;
    }
    return status;
}

// The fork's scheduler that moves inputs to another slot without allocating.
HBT_EXPORT void ggml_backend_sched_prepare_inputs(ggml_backend_sched * handle) {
    if (!real::ggml_backend_sched_prepare_inputs) return;  // found here by name, in a build that has none
    const void * caller = HBT_CALLER;
    real::ggml_backend_sched_prepare_inputs(handle);
    if (thread.depth > 0) return;
    Recording recording;
    if (!recording) return;
    Inside inside;
    inputs_prepared(handle, caller);
}

HBT_EXPORT void _ZN16llm_graph_result10set_inputsEPK12llama_ubatch(void * result, const void * ubatch) {
    static real::Symbol<void(void *, const void *)> set_inputs("_ZN16llm_graph_result10set_inputsEPK12llama_ubatch");
    if (thread.depth > 0) return set_inputs(result, ubatch);
    const void * caller = HBT_CALLER;
    {
        Recording recording;
        if (recording) {
            Inside inside;
            open_bracket(result, caller);
        }
    }
    exact::Bracket bracket;
    set_inputs(result, ubatch);
    bracket.release();
    Recording recording;
    if (recording) {
        Inside inside;
        close_bracket(caller);
    }
}

HBT_EXPORT void llama_set_warmup(void * context, bool on) {
    static real::Symbol<void(void *, bool)> set_warmup_of("llama_set_warmup");
    {
        std::lock_guard<std::mutex> held(spool::lock());
        set_warmup(on);
    }
    if (set_warmup_of) set_warmup_of(context, on);
}
