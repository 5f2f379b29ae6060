// consumer_cxx.cpp - the public headers are usable from C++, and names resolve when linked.
#include <kerf/codec.h>
#include <kerf/file.h>

#include <cstdio>

int main()
{
    kerf_error err{};
    kerf_reader *reader = nullptr;
    if (kerf_reader_open("/nowhere/at/all.safetensors", &reader, &err) != KERF_E_IO) return 1;
    std::printf("kerf %x, %zu formats\n", static_cast<unsigned>(kerf_version()),
                kerf_format_count());
    return kerf_format_count() > 0 ? 0 : 1;
}
