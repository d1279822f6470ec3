#include "store_width.hpp"

namespace hbt {

namespace {

enum Prefix { none = 0, p66 = 1, pf3 = 2, pf2 = 3 };  // numbered as VEX does

struct Code {
    int map = 0;      // 0: one byte, 1: 0F, 2: 0F38, 3: 0F3A
    int prefix = none;
    bool wide = false;  // REX.W, VEX.W
    unsigned vector = 16;
    bool masked = false;
    uint8_t opcode = 0;
};

Code read_vex(const uint8_t * at) {
    Code code;
    if (at[0] == 0xc5) {
        code.map = 1, code.prefix = at[1] & 3, code.vector = at[1] & 4 ? 32 : 16, code.opcode = at[2];
    } else {
        code.map = at[1] & 31, code.prefix = at[2] & 3, code.vector = at[2] & 4 ? 32 : 16, code.wide = at[2] & 0x80;
        code.opcode = at[3];
    }
    return code;
}

Code read_evex(const uint8_t * at) {
    Code code;
    code.map = at[1] & 7, code.prefix = at[2] & 3, code.wide = at[2] & 0x80;
    code.vector = 16u << (at[3] >> 5 & 3), code.masked = (at[3] & 7) != 0, code.opcode = at[4];
    return code;
}

Code read(const uint8_t * at) {
    Code code;
    for (;; at++) {
        if (*at == 0x66) {
            if (code.prefix == none) code.prefix = p66;
        } else if (*at == 0xf3) {
            code.prefix = pf3;
        } else if (*at == 0xf2) {
            code.prefix = pf2;
        } else if (*at != 0x2e && *at != 0x36 && *at != 0x3e && *at != 0x26 && *at != 0x64 && *at != 0x65 && *at != 0x67 &&
                   *at != 0xf0) {
            break;
        }
    }
    if (*at == 0xc5 || *at == 0xc4) return read_vex(at);
    if (*at == 0x62) return read_evex(at);
    if ((*at & 0xf0) == 0x40) code.wide = *at++ & 8;
    if (*at == 0x0f) {
        at++;
        code.map = *at == 0x38 ? 2 : *at == 0x3a ? 3 : 1;
        if (code.map != 1) at++;
    }
    code.opcode = *at;
    return code;
}

unsigned word(const Code & code) { return code.wide ? 8 : code.prefix == p66 ? 2 : 4; }

unsigned one_byte(const Code & code) {
    uint8_t op = code.opcode;
    bool arithmetic = op < 0x40 && (op & 7) < 2;
    bool known = arithmetic || (op >= 0x80 && op <= 0x83) || (op >= 0x86 && op <= 0x89) || (op >= 0xa4 && op <= 0xa5) ||
                 (op >= 0xaa && op <= 0xab) || (op >= 0xc0 && op <= 0xc1) || (op >= 0xc6 && op <= 0xc7) ||
                 (op >= 0xd0 && op <= 0xd3) || (op >= 0xf6 && op <= 0xf7) || op >= 0xfe;
    if (op == 0x83) return word(code);
    if (op == 0x8f) return 8;
    return !known ? 0 : (op & 1) == 0 ? 1 : word(code);
}

unsigned two_byte(const Code & code) {
    switch (code.opcode) {
        case 0x11: return code.prefix == pf3 ? 4 : code.prefix == pf2 ? 8 : code.vector;
        case 0x13: case 0x17: case 0xd6: return 8;
        case 0x29: case 0x2b: return code.vector;
        case 0x7f: case 0xe7: return code.prefix == none ? 8 : code.vector;
        case 0x7e: return code.wide ? 8 : 4;
        case 0xb0: case 0xc0: return 1;
        case 0xb1: case 0xc1: case 0xc3: case 0xab: case 0xb3: case 0xbb: return word(code);
        case 0xc7: return code.wide ? 16 : 8;
        default: return (code.opcode & 0xf0) == 0x90 ? 1 : 0;  // setcc
    }
}

unsigned three_byte(const Code & code) {
    switch (code.opcode) {
        case 0x14: return 1;
        case 0x15: return 2;
        case 0x16: return code.wide ? 8 : 4;
        case 0x17: return 4;
        case 0x19: case 0x39: return 16;
        case 0x1b: case 0x3b: return 32;
        case 0x1d: return code.vector / 2;
        default: return 0;
    }
}

}  // namespace

StoreWidth store_width(const uint8_t * instruction) {
    Code code = read(instruction);
    unsigned bytes = code.map == 0 ? one_byte(code) : code.map == 1 ? two_byte(code) : code.map == 3 ? three_byte(code) : 0;
    if (bytes == 0) return {64, false};
    return {bytes, !code.masked};
}

}  // namespace hbt
