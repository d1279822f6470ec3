// The end of a process. Nothing is left in memory then: this only cuts the file to its length.
#include "spool.hpp"

namespace {

__attribute__((destructor)) void at_exit() {
    std::lock_guard<std::mutex> held(hbt::spool::lock());
    hbt::spool::close_mapping();
}

}  // namespace
