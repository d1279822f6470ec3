// Closes all descriptors while it uses ggml, as a daemon does, and opens files of its own until there is one for every
// number that was in use. Prints nothing. Arguments: its file, and how many calls it makes then. Environment: LIBS.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "calls_facts.hpp"

int main(int, char ** arguments) {
    constexpr int most = 1024;
    ggml_backend_load_all_from_path(std::getenv("LIBS"));
    Buffer * buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4096);
    for (int number = 3; number < most; number++) close(number);
    int first = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int number = first + 1; number < most; number++) dup2(first, number);
    if (write(first, "of the program\n", 15) != 15) return 1;
    for (int i = 0; i < std::atoi(arguments[2]); i++) ggml_backend_buffer_clear(buffer, 1);
    ggml_backend_buffer_free(buffer);
}
