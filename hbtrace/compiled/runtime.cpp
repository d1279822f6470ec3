// What libstdc++'s containers call when a size is impossible. Its own functions draw in strings, streams and a source of
// random numbers, and with these a C library as new as the compiler's; here it is all want of memory.
#include <new>
#include <vector>

#ifdef __GLIBCXX__
namespace std {
void __throw_length_error(const char *) { throw std::bad_alloc(); }
void __throw_bad_alloc() { throw std::bad_alloc(); }
void __throw_bad_array_new_length() { throw std::bad_alloc(); }
}  // namespace std
#endif
