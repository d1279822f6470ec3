// Calls the strange library once.
#include <cstdio>

extern "C" void ggml_backend_synchronize(void *);

int main() {
    ggml_backend_synchronize(nullptr);
    std::puts("done");
}
