#include "exact.hpp"

#include <stdlib.h>

#include "call.hpp"
#include "lives.hpp"
#include "scheduler.hpp"

#if defined(__x86_64__)
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "store_width.hpp"

namespace hbt::exact {

namespace {

constexpr uintptr_t page = 4096;
constexpr size_t most_stores = size_t(1) << 20;
constexpr size_t most_runs = 1024;
constexpr size_t most_areas = 1024;
constexpr int most_layers = 4;
constexpr greg_t trap_flag = 0x100;
constexpr greg_t write_fault = 2;

struct Store {
    uintptr_t address;
    const void * instruction;
    uint32_t bytes;
    bool sure;
};

struct Area {
    uintptr_t start, end;
    Buffer buffer;
};

// What the handlers read. `areas` changes only while nothing is protected and no thread is between the two signals.
struct State {
    std::mutex bracket;
    std::vector<Area> areas;
    Store * stores = nullptr;
    size_t count = 0;
    size_t lost = 0;
    std::atomic<bool> armed{false};
    std::atomic<int> inside{0};        // threads in `on_fault`, or between the two signals
    std::atomic<unsigned> changes{0};  // begins and ends of protection: odd while anything may be protected
    struct sigaction old_faults[most_layers] = {};
    int layers = 0;
    struct sigaction old_trap = {};
};

State & state() {
    static State * all = new State;
    return *all;
}

// The thread whose bracket it is, and the page that a thread has open for the instruction it is stepping over.
thread_local bool owner __attribute__((tls_model("initial-exec")));
thread_local uintptr_t open_page __attribute__((tls_model("initial-exec")));
// The last fault of this thread that seemed not ours, and the `changes` at that time.
struct Foreign {
    uintptr_t address;
    unsigned changes;
};
thread_local Foreign foreign __attribute__((tls_model("initial-exec")));

bool is_guarded(uintptr_t address) {
    for (const Area & area : state().areas) {
        if (address >= area.start && address < area.end) return true;
    }
    return false;
}

void guard(int rights) {
    for (const Area & area : state().areas) mprotect(reinterpret_cast<void *>(area.start), area.end - area.start, rights);
}

// A store may reach into the next page.
void set_pages(uintptr_t first, int rights) {
    for (uintptr_t at : {first, first + page}) {
        if (is_guarded(at)) mprotect(reinterpret_cast<void *>(at), page, rights);
    }
}

void note_store(uintptr_t address, const void * instruction) {
    State & all = state();
    if (all.count == most_stores) {
        all.lost++;
        return;
    }
    StoreWidth width = store_width(static_cast<const uint8_t *>(instruction));
    all.stores[all.count++] = {address, instruction, width.bytes, width.sure};
}

void end_step(greg_t * registers) {
    registers[REG_EFL] &= ~trap_flag;
    if (state().armed) set_pages(open_page, PROT_READ);
    open_page = 0;
}

// What is not ours is for whoever was there before us. Ours stays: other threads' pages are still protected.
void pass_on(const struct sigaction & old, int signal, siginfo_t * info, void * context) {
    bool sent = info->si_code <= 0;  // by `kill`: no instruction is tried again
    if (old.sa_flags & SA_SIGINFO) {
        old.sa_sigaction(signal, info, context);
    } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
        old.sa_handler(signal);
    } else if (old.sa_handler == SIG_DFL || !sent) {
        sigaction(signal, &old, nullptr);  // ends the program
        if (sent) raise(signal);
    }
}

// Whether the instruction is to be tried again: stepped over, or as it is.
bool retries(siginfo_t * info, void * context) {
    State & all = state();
    greg_t * registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    // A step under way faults again where another thread has closed the page, or where the instruction stores to one
    // more. It is counted once, and must go on although the bracket ends: that waits for it.
    bool stepping = open_page != 0;
    if (!stepping) all.inside++;  // before `armed` is read: `disarm` waits for those that have read it
    bool write = info->si_code == SEGV_ACCERR && (registers[REG_ERR] & write_fault) != 0;
    if (write && (stepping || all.armed) && is_guarded(address)) {
        // Another thread's store is a queue's own work or not part of this call; it is let through.
        if (owner) note_store(address, reinterpret_cast<const void *>(registers[REG_RIP]));
        if (stepping) end_step(registers);
        open_page = address & ~(page - 1);
        set_pages(open_page, PROT_READ | PROT_WRITE);
        registers[REG_EFL] |= trap_flag;
        return true;
    }
    if (stepping) end_step(registers);
    bool changing = !all.armed && all.changes % 2 == 1;
    Foreign met{address, all.changes};
    all.inside--;
    // The page may have been opened since, or will be: then the instruction goes through. If it does not, although
    // nothing has changed, the fault is not ours.
    if (changing) return true;
    bool again = foreign.address == met.address && foreign.changes == met.changes;
    foreign = met;
    return !again;
}

template <int layer> void on_fault(int signal, siginfo_t * info, void * context) {
    bool sent = info->si_code <= 0;
    if (sent || !retries(info, context)) pass_on(state().old_faults[layer], signal, info, context);
}

using Handler = void (*)(int, siginfo_t *, void *);
constexpr Handler fault_handlers[most_layers] = {on_fault<0>, on_fault<1>, on_fault<2>, on_fault<3>};

// It stays for good: a fault that is on its way when the bracket ends would end the program without it. Where the
// program has put in its own since, that may call ours as the one before it: so it gets another one of ours before it,
// or the two would call each other for ever.
void put_in_fault_handler() {
    State & all = state();
    struct sigaction now;
    sigaction(SIGSEGV, nullptr, &now);
    if (std::count(fault_handlers, fault_handlers + most_layers, now.sa_sigaction) > 0) return;
    int layer = std::min(all.layers++, most_layers - 1);
    all.old_faults[layer] = now;
    struct sigaction action = now;  // with its mask: it is called with it
    action.sa_flags = (now.sa_flags & SA_NODEFER) | SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = fault_handlers[layer];
    sigaction(SIGSEGV, &action, nullptr);
}

void on_trap(int signal, siginfo_t * info, void * context) {
    if (open_page == 0) {
        if (state().old_trap.sa_flags & SA_SIGINFO) state().old_trap.sa_sigaction(signal, info, context);
        return;
    }
    end_step(static_cast<ucontext_t *>(context)->uc_mcontext.gregs);
    state().inside--;
}

void arm() {
    State & all = state();
    put_in_fault_handler();
    sigaction(SIGTRAP, nullptr, &all.old_trap);
    all.changes++;
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = on_trap;
    sigaction(SIGTRAP, &action, nullptr);
    all.armed = true;
    owner = true;
    guard(PROT_READ);
}

void disarm() {
    State & all = state();
    all.armed = false;
    owner = false;
    // A thread whose second signal met no handler would end the program. One may also have seen `armed` just before,
    // and close its page now: so the pages are opened behind it.
    while (all.inside > 0) sched_yield();
    guard(PROT_READ | PROT_WRITE);
    sigaction(SIGTRAP, &all.old_trap, nullptr);
    all.changes++;
}

// ---- from stores to writes

struct Run {
    uintptr_t start, end;
    bool sure;
};

// The stores that hit [start, end), as maximal runs of bytes.
std::vector<Run> runs_in(const std::vector<Store> & sorted, uintptr_t start, uintptr_t end) {
    std::vector<Run> runs;
    for (const Store & store : sorted) {
        uintptr_t lo = std::max(store.address, start), hi = std::min(store.address + store.bytes, end);
        if (lo >= hi) continue;
        if (!runs.empty() && lo <= runs.back().end) {
            runs.back().end = std::max(runs.back().end, hi);
            runs.back().sure &= store.sure;
        } else {
            runs.push_back({lo, hi, store.sure});
        }
    }
    return runs;
}

bool is_regular(const std::vector<Run> & runs) {
    uintptr_t size = runs[0].end - runs[0].start, stride = runs[1].start - runs[0].start;
    for (size_t i = 0; i < runs.size(); i++) {
        if (runs[i].end - runs[i].start != size || runs[i].sure != runs[0].sure) return false;
        if (i > 0 && runs[i].start - runs[i - 1].start != stride) return false;
    }
    return true;
}

struct Piece {
    uintptr_t offset, size, rows, stride;
    bool approx;
};

std::vector<Piece> pieces_of(const std::vector<Run> & runs, uintptr_t base) {
    std::vector<Piece> pieces;
    if (runs.empty()) return pieces;
    if (runs.size() > 2 && is_regular(runs)) {
        uintptr_t stride = runs[1].start - runs[0].start;
        return {{runs[0].start - base, runs[0].end - runs[0].start, runs.size(), stride, !runs[0].sure}};
    }
    if (runs.size() > most_runs) return {{runs[0].start - base, runs.back().end - runs[0].start, 1, 0, true}};
    for (const Run & run : runs) pieces.push_back({run.start - base, run.end - run.start, 1, 0, !run.sure});
    return pieces;
}

void append_piece(Json & json, const Piece & piece) {
    json.number("offset", int64_t(piece.offset)).number("size", int64_t(piece.size));
    if (piece.rows > 1) json.number("rows", int64_t(piece.rows)).number("stride", int64_t(piece.stride));
    if (piece.approx) json.flag("approx", true);
}

void find_areas(const Inputs & inputs) {
    for (const Buffer & buffer : host_buffers()) {
        auto start = reinterpret_cast<uintptr_t>(buffer.base), end = start + buffer.size;
        bool holds = std::any_of(inputs.list.begin(), inputs.list.end(), [&](const Input & input) {
            auto data = reinterpret_cast<uintptr_t>(input.data);
            return input.host && data >= start && data < end;
        });
        if (!holds || state().areas.size() == most_areas) continue;
        state().areas.push_back({start & ~(page - 1), (end + page - 1) & ~(page - 1), buffer});
    }
}

struct Found {
    size_t first;  // store, in the order of time
    const Input * input;
    const void * instruction;
};

// What the stores hit outside of all inputs, in buffers that hold inputs.
void write_others(const std::vector<Store> & sorted, const Inputs & inputs, const void * caller) {
    std::string list;
    for (const Area & area : state().areas) {
        uintptr_t start = reinterpret_cast<uintptr_t>(area.buffer.base), end = start + area.buffer.size;
        std::vector<Store> rest;
        for (const Store & store : sorted) {
            bool known = std::any_of(inputs.list.begin(), inputs.list.end(), [&](const Input & input) {
                auto data = reinterpret_cast<uintptr_t>(input.data);
                return input.host && store.address + store.bytes > data && store.address < data + input.size;
            });
            if (!known) rest.push_back(store);
        }
        for (const Piece & piece : pieces_of(runs_in(rest, start, end), start)) {
            list += list.empty() ? '[' : ',';
            Json range(list);
            range.number("buffer", area.buffer.id);
            append_piece(range, piece);
            range.close();
        }
    }
    if (list.empty()) return;
    Row row("host_access");
    row->text("label", "direct").raw("writes", list + "]");
    row.happen(caller);
}

}  // namespace

bool on() {
    static const bool asked = getenv("HBTRACE_RECORD_EXACT") != nullptr;
    return asked;
}

Bracket::Bracket() {
    if (!on() || thread.scheduler == nullptr || !thread.bracket) return;
    State & all = state();
    all.bracket.lock();
    on_ = true;
    all.areas.clear();
    all.count = 0;
    if (all.stores == nullptr) {
        void * memory = mmap(nullptr, most_stores * sizeof(Store), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return;
        all.stores = static_cast<Store *>(memory);
        all.areas.reserve(most_areas);
    }
    {
        std::lock_guard<std::mutex> held(spool::lock());
        find_areas(thread.scheduler->inputs);
    }
    arm();
}

void Bracket::release() {
    if (owner) disarm();
}

Bracket::~Bracket() {
    release();
    if (on_) state().bracket.unlock();
}

void forget() {
    if (!on()) return;
    state().inside = 0;  // those threads are not here
    if (state().changes % 2 == 1) disarm();
    new (&state().bracket) std::mutex;  // whoever held it is not here
}

void write_stores(Inputs & inputs, const void * caller) {
    State & all = state();
    std::vector<Store> stores(all.stores, all.stores + all.count);
    std::vector<Found> found;
    for (const Input & input : inputs.list) {
        auto data = reinterpret_cast<uintptr_t>(input.data);
        if (!input.host) continue;
        for (size_t i = 0; i < stores.size(); i++) {
            if (stores[i].address + stores[i].bytes <= data || stores[i].address >= data + input.size) continue;
            found.push_back({i, &input, stores[i].instruction});
            break;
        }
    }
    std::sort(found.begin(), found.end(), [](const Found & a, const Found & b) { return a.first < b.first; });
    std::sort(stores.begin(), stores.end(), [](const Store & a, const Store & b) { return a.address < b.address; });
    all.count = 0;
    size_t lost = std::exchange(all.lost, 0);  // of this call alone, also where it is not wanted
    if (!wanted()) return;
    for (const Found & one : found) {
        auto data = reinterpret_cast<uintptr_t>(one.input->data);
        int64_t id = tensor_of(one.input->tensor);
        for (const Piece & piece : pieces_of(runs_in(stores, data, data + one.input->size), data)) {
            Row row("set_direct");
            row->number("tensor", id);
            append_piece(*row, piece);
            row.happen(one.instruction);
        }
    }
    write_others(stores, inputs, caller);
    if (lost > 0) {
        std::string attrs;
        Json(attrs).number("stores", int64_t(lost)).close();
        Row row("note");
        row->text("what", "stores_lost").raw("attrs", attrs);
        row.happen(caller);
    }
}

Lifted::Lifted() : was_(owner) {
    if (was_) disarm();
}

Lifted::~Lifted() {
    if (was_) arm();
}

}  // namespace hbt::exact

#else

// Single stepping from inside the process needs x86-64's trap flag.
namespace hbt::exact {
bool on() { return false; }
void forget() {}
Bracket::Bracket() {}
Bracket::~Bracket() { (void) on_; }
void Bracket::release() {}
void write_stores(Inputs &, const void *) {}
Lifted::Lifted() : was_(false) {}
Lifted::~Lifted() { (void) was_; }
}  // namespace hbt::exact

#endif
