/* test_sentencepiece.c - a tokenizer.model, whole, cut off at every byte, and with every byte
 * replaced by every other: what it says, or a failure. The bytes end where their memory does, so
 * that sanitizers see what is read behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/gguf_sentencepiece.h"

/* <unk> of type 2, <s> of type 3, <0x41> of type 6, "ab" with the score -1.5 and a field that
 * nobody knows; BPE, special tokens 0 1 2 and -1; no map, a prefix, spaces as they are. */
static const unsigned char file[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                                    "\x0a\x0c\x0a\x03<s>\x15\0\0\0\0\x18\x03"
                                    "\x0a\x0f\x0a\x06<0x41>\x15\0\0\0\0\x18\x06"
                                    "\x0a\x0d\x0a\x02"
                                    "ab\x15\0\0\xc0\xbf\xba\x02\x01x"
                                    "\x12\x17\x18\x02\xc0\x02\x00\xc8\x02\x01\xd0\x02\x02\xd8\x02"
                                    "\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                                    "\x01"
                                    "\x1a\x0e\x0a\x08identity\x18\x01\x20\x00";

static void test_whole(void **state)
{
    kf_pieces p;
    kerf_error err = {0};
    (void)state;
    assert_int_equal(kf_pieces_parse("m", file, sizeof file - 1, &p, &err), KERF_OK);
    assert_int_equal(p.count, 4);
    assert_string_equal(p.piece[0].text, "<unk>");
    assert_string_equal(p.piece[3].text, "ab");
    assert_true(p.piece[3].score == -1.5f && p.piece[2].score == 0);
    assert_int_equal(p.piece[0].type, 2);
    assert_int_equal(p.piece[2].type, 6);
    assert_int_equal(p.piece[3].type, 1);
    assert_true(p.is_bpe && p.prefix && !p.is_changed);
    assert_true(p.has_bos);
    kf_pieces_close(&p);
}

static void try_bytes(const unsigned char *bytes, size_t n)
{
    kf_pieces p;
    kerf_error err = {.text = ""};
    unsigned char *own = malloc(n ? n : 1);
    assert_non_null(own);
    memcpy(own, bytes, n);
    const kerf_status s = kf_pieces_parse("m", own, n, &p, &err);
    if (s != KERF_OK) assert_true(s == KERF_E_DATA && err.text[0] && !p.piece && !p.texts);
    for (size_t i = 0; s == KERF_OK && i < p.count; i++) assert_true(strlen(p.piece[i].text) < n);
    kf_pieces_close(&p);
    free(own);
}

static void test_hostile(void **state)
{
    unsigned char own[sizeof file];
    (void)state;
    for (size_t n = 0; n < sizeof file; n++) try_bytes(file, n);
    memcpy(own, file, sizeof file);
    for (size_t i = 0; i + 1 < sizeof file; i++)
        for (unsigned v = 0; v < 256; v++) {
            own[i] = (unsigned char)v;
            try_bytes(own, sizeof file - 1);
            own[i] = file[i];
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
