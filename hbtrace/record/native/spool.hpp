// The spool: the file of this process, a line an event, mapped into memory. What is written there is the kernel's from
// that moment: no kill or crash of the program loses a whole line. The caller of each function holds the lock.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace hbt::spool {

std::mutex & lock();

// False when there is nothing to record to: no launcher, the limit reached, the disk full.
bool open();
// The line that is being built; `row_done` when it is whole.
std::string & row();
void row_done();
// End the trace here, with a note that says why. The program goes on.
void stop(const char * reason, int64_t number);
// The process ends: cut the file to what is used. Rows that still come are written by calls.
void close_mapping();
// Nanoseconds since this process's spool began.
int64_t now();
// The child of a fork: forget the parent's file and row.
void forget();

}  // namespace hbt::spool
