// Interposed: lives of backends and events, computes, waits.
#include <unordered_map>

#include "call.hpp"
#include "graphs.hpp"
#include "inputs.hpp"
#include "lives.hpp"
#include "real.hpp"
#include "vtable.hpp"

using namespace hbt;

namespace {

// One event that only names a queue and perhaps an event of it.
void write_edge(const char * name, ggml_backend * backend, ggml_backend_event * event, const void * caller) {
    Recording recording;
    if (!recording || !wanted()) return;
    Inside inside;
    int64_t queue = backend_of(backend);
    Row row(name);
    if (backend != nullptr) row->number("backend", queue);
    if (event != nullptr) row->number("event", event_of(event));
    row.happen(caller);
}

void write_compute(ggml_backend * backend, int64_t graph, const void * caller) {
    int64_t queue = backend_of(backend);
    Row row("compute");
    row->number("backend", queue).number("graph", graph);
    row.happen(caller);
}

void begin_graph(ggml_backend * backend, ggml_cgraph * graph, const void * caller) {
    Recording recording;
    if (!recording || !wanted()) return;
    Inside inside;
    int64_t id = graph_of(backend, graph);
    if (!thread.computing) look_at_inputs(graph, inputs_of(graph), caller);
    write_compute(backend, id, caller);
}

void end_graph(ggml_backend * backend, int status, const void * caller) {
    if (thread.computing && !thread.pieces) thread.split++;
    if (status == 0) return;
    Recording recording;
    if (!recording || !wanted()) return;
    Inside inside;
    std::string attrs;
    int64_t queue = backend_of(backend);
    Json(attrs).number("backend", queue).number("status", status).close();
    Row row("note");
    row->text("what", "compute_failed").raw("attrs", attrs);
    row.happen(caller);
}

// Plans hold a graph that is walked when the plan is made.
std::unordered_map<void *, int64_t> & plans() {
    static auto * map = new std::unordered_map<void *, int64_t>;
    return *map;
}

}  // namespace

namespace hbt {

void forget_plans() { plans().clear(); }

}  // namespace hbt

HBT_EXPORT ggml_backend * ggml_backend_dev_init(ggml_backend_device * device, const char * parameters) {
    ggml_backend * made;
    {
        Inside inside;  // a backend made of others makes those itself
        made = real::ggml_backend_dev_init(device, parameters);
    }
    if (thread.depth > 0 || made == nullptr) return made;
    Recording recording;
    if (recording) {
        Inside inside;
        backend_of(made);
    }
    return made;
}

HBT_EXPORT void ggml_backend_free(ggml_backend * backend) {
    if (thread.depth == 0 && backend != nullptr) {
        const void * caller = HBT_CALLER;
        Recording recording;
        int64_t id;
        if (recording && backend_died(backend, id)) {
            Inside inside;
            leave_ubatch();
            unpatch(backend);
            Row row("backend_free");
            row->number("backend", id);
            row.happen(caller);
        }
    }
    Inside inside;
    real::ggml_backend_free(backend);
}

HBT_EXPORT void ggml_backend_synchronize(ggml_backend * backend) {
    {
        Inside inside;
        real::ggml_backend_synchronize(backend);
    }
    if (thread.depth == 0) write_edge("synchronize", backend, nullptr, HBT_CALLER);
}

HBT_EXPORT int ggml_backend_graph_compute_async(ggml_backend * backend, ggml_cgraph * graph) {
    if (thread.depth > 0) return real::ggml_backend_graph_compute_async(backend, graph);
    const void * caller = HBT_CALLER;
    split_computes(backend);
    begin_graph(backend, graph, caller);
    int status;
    {
        Inside inside;
        status = real::ggml_backend_graph_compute_async(backend, graph);
    }
    end_graph(backend, status, caller);
    return status;
}

HBT_EXPORT void * ggml_backend_graph_plan_create(ggml_backend * backend, ggml_cgraph * graph) {
    void * plan = real::ggml_backend_graph_plan_create(backend, graph);
    if (thread.depth > 0) return plan;
    Recording recording;
    if (recording) {
        Inside inside;
        plans()[plan] = graph_of(backend, graph);
    }
    return plan;
}

HBT_EXPORT void ggml_backend_graph_plan_free(ggml_backend * backend, void * plan) {
    if (thread.depth == 0) {
        Recording recording;
        plans().erase(plan);
    }
    real::ggml_backend_graph_plan_free(backend, plan);
}

HBT_EXPORT int ggml_backend_graph_plan_compute(ggml_backend * backend, void * plan) {
    const void * caller = HBT_CALLER;
    if (thread.depth == 0) {
        Recording recording;
        auto known = plans().find(plan);
        if (recording && wanted() && known != plans().end()) {
            Inside inside;
            write_compute(backend, known->second, caller);
        }
    }
    Inside inside;
    return real::ggml_backend_graph_plan_compute(backend, plan);
}

HBT_EXPORT ggml_backend_event * ggml_backend_event_new(ggml_backend_device * device) {
    Inside inside;
    auto * event = real::ggml_backend_event_new(device);
    if (event != nullptr && thread.depth == 1) {
        // A pointer in use again: the event before it was freed where nobody sees it.
        Recording recording;
        event_died(event);
    }
    return event;
}

HBT_EXPORT void ggml_backend_event_free(ggml_backend_event * event) {
    if (thread.depth == 0 && event != nullptr) {
        write_edge("event_free", nullptr, event, HBT_CALLER);
        Recording recording;
        event_died(event);
    }
    Inside inside;
    real::ggml_backend_event_free(event);
}

HBT_EXPORT void ggml_backend_event_record(ggml_backend_event * event, ggml_backend * backend) {
    if (thread.depth == 0) write_edge("event_record", backend, event, HBT_CALLER);
    Inside inside;
    real::ggml_backend_event_record(event, backend);
}

HBT_EXPORT void ggml_backend_event_wait(ggml_backend * backend, ggml_backend_event * event) {
    if (thread.depth == 0) write_edge("event_wait", backend, event, HBT_CALLER);
    Inside inside;
    real::ggml_backend_event_wait(backend, event);
}

HBT_EXPORT void ggml_backend_event_synchronize(ggml_backend_event * event) {
    {
        Inside inside;
        real::ggml_backend_event_synchronize(event);
    }
    if (thread.depth == 0) write_edge("event_synchronize", nullptr, event, HBT_CALLER);
}
