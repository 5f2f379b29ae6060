/* target_command.c - the command on a hostile checkpoint: the first byte chooses the line, the rest
 * are the files of a folder, or one file that is given by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* %s: the source. An output stands at @/out, or @/out and an ending. */
static const char *const lines[] = {
    "inspect %s --json",
    "inspect %s",
    "inspect %s --planes",
    "dequantize %s -j 1 -o @/out",
    "dequantize %s -j 1 --dtype f32 -o @/out.safetensors",
    "convert %s --layout kerf -j 1 -o @/out",
    "convert %s --layout compressed-tensors -j 1 -o @/out",
    "convert %s --layout modelopt -j 1 -o @/out",
    "convert %s --layout gptq-v2 -j 1 -o @/out",
    "convert %s --layout deepseek -j 1 -o @/out",
    "convert %s --layout bitsandbytes -j 1 -o @/out",
    "quantize %s -f nvfp4:4/6 -j 1 -o @/out",
    "quantize %s -f int4-g32 --layout compressed-tensors -j 1 -o @/out",
    "quantize %s -f nvfp4 -j 1 -o @/out.gguf",
    "quantize %s -f int8 -j 1 --shard-size 4KB -o @/out",
    "quantize %s -f mxfp4 -n --json",
    "score %s -f int8 -j 1 --json",
    "verify %s %s -j 1",
    "advise %s --budget 6bits -f int8,nvfp4 -j 1 --json",
    "predict --hardware h200 --model %s --json",
};
enum { LINES = sizeof lines / sizeof *lines };

static void give(const char *line, const char *source)
{
    char whole[1024], *out = whole;
    const char *end = whole + sizeof whole - 1, *to = strstr(line, "@/out");
    for (const char *p = line; *p && out < end; p++) {
        if (p[0] == '%' && p[1] == 's') {
            out += snprintf(out, (size_t)(end - out), "%s", source);
            p++;
        } else {
            *out++ = *p;
        }
    }
    *out = 0;
    fuzz_kerf(whole, to ? to + strlen("@/") : NULL);
    if (to) fuzz_clear(to + strlen("@/"));
}

void fuzz_input(const uint8_t *p, size_t n)
{
    fuzz_file file[FUZZ_FILES];
    const char *source = "@/m";
    char single[300];
    if (n == 0) return;
    const size_t count = fuzz_files_split(p + 1, n - 1, file);
    fuzz_clear("m");
    fuzz_put("m", "LICENSE", "", 0); /* the folder is there, whatever the input has */
    for (size_t i = 0; i < count; i++) {
        const char *name = file[i].name;
        const size_t k = strlen(name);
        fuzz_put("m", name, file[i].p, file[i].n);
        if (k < 5 || strcmp(name + k - 5, ".gguf") != 0 || strpbrk(name, " @%/")) continue;
        snprintf(single, sizeof single, "@/m/%.255s", name);
        source = single;
    }
    give(lines[p[0] % LINES], source);
}

size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    fuzz_random r = {seed};
    if (n == 0) return 0;
    if (fuzz_below(&r, 8) == 0) p[0] = (uint8_t)fuzz_below(&r, LINES);
    fuzz_bytes b = fuzz_change_files(&r, p + 1, n - 1);
    const size_t m = b.n < room - 1 ? b.n : room - 1;
    if (m > 0) memcpy(p + 1, b.p, m);
    free(b.p);
    return m + 1;
}
