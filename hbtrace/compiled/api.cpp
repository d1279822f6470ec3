// The C interface: nothing but the way from C to C++, and from an exception to a status.
#include "hbtrace.h"

#ifndef HB_STAMP
#error "compile.py says what the sources are"
#endif

int32_t hb_interface(void) { return HB_INTERFACE; }
const char *hb_stamp(void) { return HB_STAMP; }
