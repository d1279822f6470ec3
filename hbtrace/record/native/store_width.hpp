// How many bytes the x86-64 instruction at an address stores to memory.
#pragma once

#include <cstdint>

namespace hbt {

struct StoreWidth {
    unsigned bytes;
    bool sure;  // false: not decoded, or masked; `bytes` is then the most that it may be
};
StoreWidth store_width(const uint8_t * instruction);

}  // namespace hbt
