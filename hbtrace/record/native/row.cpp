#include "row.hpp"

#include <charconv>

namespace hbt {

void append_number(std::string & out, int64_t number) {
    char digits[24];
    auto end = std::to_chars(digits, digits + sizeof digits, number);
    out.append(digits, end.ptr);
}

namespace {

// How many bytes of well-formed UTF-8 stand at `at`; 0 if what stands there is none. Names are bytes to ggml.
size_t sequence(std::string_view text, size_t at) {
    auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    unsigned first = byte(at);
    size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < length; i++) {
        if ((byte(at + i) & 0xc0) != 0x80) return 0;
    }
    unsigned second = byte(at + 1);
    bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    bool beyond = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
    return overlong || beyond ? 0 : length;
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

}  // namespace

void append_text(std::string & out, std::string_view text) {
    static const char hex[] = "0123456789abcdef";
    out += '"';
    for (size_t i = 0; i < text.size();) {
        size_t plain = i;
        while (plain < text.size() && is_plain(text[plain])) plain++;
        out.append(text, i, plain - i);
        i = plain;
        if (i == text.size()) break;
        unsigned char c = static_cast<unsigned char>(text[i]);
        size_t length = sequence(text, i);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += text[i];
        } else if (c < 0x20) {
            out += "\\u00";
            out += hex[c >> 4];
            out += hex[c & 15];
        } else if (length == 0) {
            out += "\\ufffd";
        } else {
            out.append(text, i, length);
        }
        i += length == 0 ? 1 : length;
    }
    out += '"';
}

}  // namespace hbt
