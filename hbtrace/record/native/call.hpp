// What a thread is in the middle of. An interposed function that is called from another one is part of that one's
// event and records nothing itself, unless the outer one is only a frame around others (the scheduler's compute).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "ggml_names.hpp"
#include "row.hpp"
#include "spool.hpp"

namespace hbt {

struct Scheduler;

struct Thread {
    int depth = 0;            // inside an interposed function that is one event, or inside the recorder
    int number = -1;          // host thread, by first sight
    int64_t ubatch = -1;      // being prepared or computed
    int split = -1;           // only inside the scheduler's compute
    Scheduler * scheduler = nullptr;  // last prepared or computed
    const void * result = nullptr;    // the program's graph handle that it has set inputs of, until it computes
    bool computing = false;   // inside the scheduler's compute
    bool pieces = false;      // which computes each split in pieces, for the program to look at what it asks for
    ggml_backend * computed = nullptr;  // by pieces: the queue that has a piece of this split
    bool bracket = false;     // between begin and end of the program's input-setting call
};

extern thread_local Thread thread __attribute__((tls_model("initial-exec")));

// What is called from here on is not an event of its own.
struct Inside {
    Inside() { thread.depth++; }
    ~Inside() { thread.depth--; }
};

// Opens the trace if need be: takes the lock, and says whether there is something to record to.
class Recording {
  public:
    Recording();
    ~Recording();
    explicit operator bool() const { return on_; }
    Recording(const Recording &) = delete;
    Recording & operator=(const Recording &) = delete;

  private:
    std::unique_lock<std::mutex> held_;
    bool on_ = false;
};

// Whether accesses, edges and markers of this thread's ubatch are wanted (`--ubatches`); definitions always are.
bool wanted();

// What happens outside of an ubatch's preparation and compute belongs to none.
void leave_ubatch();

// By pieces, nothing tells where a split ends: another queue computes, or the scheduler copies the next one's inputs.
void split_computes(ggml_backend * backend);
void split_copies(const void * caller);

// A row under way. Rows do not nest: what a row names must be defined before it is begun. Closed with the keys that all have. Definitions pass a null caller and get no thread or place.
class Row {
  public:
    explicit Row(const char * event) : json_(spool::row()) { json_.text("ev", event); }
    Json & operator*() { return json_; }
    Json * operator->() { return &json_; }
    void define() { end(); }
    void happen(const void * caller);

  private:
    void end();
    Json json_;
};

// `module:function` of a return address.
const std::string & site(const void * caller);
// Whether the address is in a library of ggml's: what it calls is the business of the call that led there.
bool in_ggml(const void * caller);

}  // namespace hbt
