// Finding the real functions: the next object in the program's order, else any loaded one that defines the symbol.
#include "real.hpp"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hbt::real {

namespace {

void * own_base() {
    Dl_info info{};
    dladdr(reinterpret_cast<void *>(&own_base), &info);
    return info.dli_fbase;
}

bool is_ours(void * address) {
    static void * const base = own_base();
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fbase == base;
}

std::vector<std::string> loaded_objects() {
    std::vector<std::string> names;
    dl_iterate_phdr(
        [](dl_phdr_info * info, size_t, void * out) {
            if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0') {
                static_cast<std::vector<std::string> *>(out)->emplace_back(info->dlpi_name);
            }
            return 0;
        },
        &names
    );
    return names;
}

}  // namespace

void * find(const char * symbol) {
    if (void * next = dlsym(RTLD_NEXT, symbol)) return next;
    // Python and node load with RTLD_LOCAL: such an object is in nobody's search order but its own.
    for (const std::string & name : loaded_objects()) {
        void * object = dlopen(name.c_str(), RTLD_NOLOAD | RTLD_LAZY);
        if (object == nullptr) continue;
        void * address = dlsym(object, symbol);
        dlclose(object);
        if (address != nullptr && !is_ours(address)) return address;
    }
    return nullptr;
}

uint64_t loads() {
    uint64_t count = 0;
    auto first = [](dl_phdr_info * info, size_t, void * out) {
        *static_cast<uint64_t *>(out) = info->dlpi_adds;
        return 1;
    };
    dl_iterate_phdr(first, &count);
    return count;
}

int count(const char * symbol) {
    std::vector<void *> found;
    for (const std::string & name : loaded_objects()) {
        void * object = dlopen(name.c_str(), RTLD_NOLOAD | RTLD_LAZY);
        if (object == nullptr) continue;
        void * address = dlsym(object, symbol);
        dlclose(object);
        if (address == nullptr || is_ours(address)) continue;
        if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
    }
    return int(found.size());
}

void missing(const char * symbol) {
    const char text[] = "hbtrace: the recorded program calls a function that no library of it defines: ";
    (void) !write(2, text, sizeof text - 1);
    (void) !write(2, symbol, strlen(symbol));
    (void) !write(2, "\n", 1);
    abort();
}

}  // namespace hbt::real
