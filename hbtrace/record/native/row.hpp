// JSON text, appended to a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hbt {

void append_number(std::string & out, int64_t number);
void append_text(std::string & out, std::string_view text);  // quoted and escaped

// `[1,2]`: the number of each item.
template <class Item, class Number> void append_list(std::string & out, Item first, Item end, Number number) {
    out += '[';
    for (Item at = first; at != end; ++at) {
        if (at != first) out += ',';
        append_number(out, number(*at));
    }
    out += ']';
}

// An object in brackets, for values inside a row.
class Json {
  public:
    explicit Json(std::string & out) : out_(out) { out_ += '{'; }
    Json & number(const char * key, int64_t value) {
        name(key);
        append_number(out_, value);
        return *this;
    }
    Json & text(const char * key, std::string_view value) {
        name(key);
        append_text(out_, value);
        return *this;
    }
    Json & flag(const char * key, bool value) {
        name(key);
        out_ += value ? "true" : "false";
        return *this;
    }
    Json & raw(const char * key, std::string_view json) {
        name(key);
        out_ += json;
        return *this;
    }
    void close() { out_ += '}'; }

  private:
    void name(const char * key) {
        if (out_.back() != '{') out_ += ',';
        out_ += '"';
        out_ += key;
        out_ += "\":";
    }
    std::string & out_;
};

}  // namespace hbt
