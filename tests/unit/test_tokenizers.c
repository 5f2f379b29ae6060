/* test_tokenizers.c - small tokenizers of each kind give the tokens that the tokenizers package
 * gave (tests/interop/make_tokenizers.py), and what is no tokenizer is refused by name. */
#include <kerf/tokens.h>

#include "test_output.h"

#define DATA KERF_TEST_DATA "/tokenizers/"

static kerf_tokenizer *open_tokenizer(const char *path)
{
    kerf_tokenizer *t;
    kerf_error err;
    must(kerf_tokenizer_open(path, &t, &err), &err);
    return t;
}

/* 1 where kerf was built without what cuts texts. */
static int lacks_patterns(const char *path)
{
    kerf_tokenizer *t;
    kerf_error err = {0};
    const kerf_status s = kerf_tokenizer_open(path, &t, &err);
    kerf_tokenizer_close(t);
    return s == KERF_E_NOSUP && strstr(err.text, "libpcre2-dev") != NULL;
}

static void test_tokens(void **state)
{
    static const struct {
        const char *name, *kind;
    } of[] = {
        {"gpt2", "byte-level BPE"},
        {"gpt2-prefix", "byte-level BPE"},
        {"smollm", "byte-level BPE"},
        {"llama3", "byte-level BPE"},
        {"qwen2", "byte-level BPE"},
        {"o200k", "byte-level BPE"},
        {"deepseek", "byte-level BPE"},
        {"llama2", "SentencePiece BPE"},
        {"gemma", "SentencePiece BPE"},
        {"mistral", "SentencePiece BPE"},
        {"t5", "unigram"},
        {"unigram-bytes", "unigram"},
    };
    (void)state;
    if (lacks_patterns(DATA "gpt2.json")) skip();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const kerf_tokenize_options opt = {.template_tokens = 1};
        char path[512];
        kerf_token_list want, got;
        kerf_error err;
        snprintf(path, sizeof path, DATA "%s.json", of[i].name);
        kerf_tokenizer *t = open_tokenizer(path);
        assert_string_equal(kerf_tokenizer_kind(t), of[i].kind);
        snprintf(path, sizeof path, DATA "%s.u16", of[i].name);
        must(kerf_tokens_read(path, kerf_tokenizer_vocabulary(t), &want, &err), &err);
        must(kerf_tokenizer_encode_file(t, DATA "text.txt", &opt, &got, &err), &err);
        for (size_t k = 0; k < want.count && k < got.count; k++)
            if (want.token[k] != got.token[k])
                fail_msg("%s: token %zu is %s, not %s", of[i].name, k,
                         kerf_tokenizer_token(t, got.token[k]),
                         kerf_tokenizer_token(t, want.token[k]));
        assert_int_equal(want.count, got.count);
        kerf_token_list_free(&want);
        kerf_token_list_free(&got);
        kerf_tokenizer_close(t);
    }
}

static void test_parts(void **state)
{
    kerf_token_list l;
    kerf_error err = {0};
    (void)state;
    kerf_tokenizer *t = open_tokenizer(DATA "llama2.json");
    assert_int_equal(kerf_tokenizer_vocabulary(t), 703);
    assert_string_equal(kerf_tokenizer_token(t, 1), "<s>");
    assert_null(kerf_tokenizer_token(t, 703));
    must(kerf_tokenizer_encode(t, "", 0, NULL, &l, &err), &err);
    assert_int_equal(l.count, 0);
    kerf_token_list_free(&l);
    must(kerf_tokenizer_encode(t, NULL, 0, NULL, &l, &err), &err); /* an empty span */
    kerf_token_list_free(&l);
    must(kerf_tokenizer_encode(t, "\xe2\x82\xac", 3, NULL, &l, &err), &err);
    assert_int_equal(l.count, 4); /* the space in front, and a character that it has no token for */
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(l.token[1 + i], 3 + (unsigned char)"\xe2\x82\xac"[i]);
    kerf_token_list_free(&l);
    assert_int_equal(kerf_tokenizer_encode(t, "ab\xff", 3, NULL, &l, &err), KERF_E_DATA);
    assert_int_equal(err.offset, 2);
    assert_int_equal(kerf_tokenizer_encode(t, "\xed\xa0\x80", 3, NULL, &l, &err), KERF_E_DATA);
    assert_int_equal(kerf_tokenizer_encode(t, "\xc0\x80", 2, NULL, &l, &err), KERF_E_DATA);
    assert_int_equal(kerf_tokenizer_encode(t, "\xe2\x82", 2, NULL, &l, &err), KERF_E_DATA);
    kerf_tokenizer_close(t);
}

#define BPE(more) "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}," more "}}"
#define AROUND(more) "{" more ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"

static void test_hostile(void **state)
{
    static const struct {
        const char *text;
        kerf_status status;
        const char *part;
    } of[] = {
        {"", KERF_E_DATA, ""},
        {"[]", KERF_E_DATA, "object"},
        {"{}", KERF_E_NOSUP, "kind"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", KERF_E_NOSUP, "WordPiece"},
        {BPE("\"merges\":[\"a b c\"]"), KERF_E_DATA, "pair"},
        {BPE("\"merges\":[[\"a\",\"c\"]]"), KERF_E_DATA, "merge 0"},
        {BPE("\"merges\":[[\"b\",\"a\"]]"), KERF_E_DATA, "merge 0"},
        {BPE("\"merges\":[7]"), KERF_E_DATA, "pair"},
        {BPE("\"merges\":7"), KERF_E_DATA, "merges"},
        {BPE("\"merges\":[],\"dropout\":0.1"), KERF_E_NOSUP, "dropout"},
        {BPE("\"merges\":[],\"end_of_word_suffix\":\"</w>\""), KERF_E_NOSUP, "end_of_word"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", KERF_E_DATA,
         "number"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4294967295},\"merges\":[]}}", KERF_E_DATA,
         "number"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", KERF_E_DATA, "score"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", KERF_E_DATA, "vocabulary"},
        {AROUND("\"normalizer\":{\"type\":\"NFKC\"}"), KERF_E_NOSUP, "NFKC"},
        {AROUND("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"////\"}"),
         KERF_E_DATA, "charsmap"},
        {AROUND("\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"), KERF_E_NOSUP, "Bert"},
        {AROUND("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{}}"), KERF_E_DATA, "text"},
        {AROUND("\"added_tokens\":[{\"content\":\"x\"}]"), KERF_E_DATA, "added"},
        {AROUND("\"added_tokens\":[{\"content\":\"x\",\"id\":99999999}]"), KERF_E_DATA, "added"},
    };
    const char *path = in_folder(state, "tokenizer.json");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        kerf_tokenizer *t;
        kerf_error err = {0};
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(of[i].text, f);
        fclose(f);
        const kerf_status s = kerf_tokenizer_open(*state, &t, &err);
        if (s != of[i].status || !strstr(err.text, of[i].part) || t)
            fail_msg("%s: %s, %s", of[i].text, kerf_status_name(s), err.text);
    }
}

static void test_patterns(void **state)
{
    static const char *const bad[] = {"(", "[a&&b]", "\\C", "(?<n>a)(?<n>b"};
    const char *path = in_folder(state, "p.json");
    char text[256];
    if (lacks_patterns(DATA "gpt2.json")) skip();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kerf_tokenizer *t;
        kerf_error err = {0};
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        snprintf(text, sizeof text,
                 AROUND("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s%s\"}}"),
                 bad[i][0] == '\\' ? "\\" : "", bad[i]);
        fputs(text, f);
        fclose(f);
        assert_int_equal(kerf_tokenizer_open(path, &t, &err), KERF_E_NOSUP);
        if (!strstr(err.text, "pattern")) fail_msg("%s", err.text);
    }
}

/* Of two ways that are as likely tokenizers keeps the first that it finds: from the character at
 * which it begins earlier. Unknown characters in a row are one token. */
static void test_equal_ways(void **state)
{
    static const char file[] = "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": "
                               "[[\"<unk>\", 0], [\"a\", -1],"
                               " [\"b\", -1], [\"ab\", -2], [\"bb\", -4]]}}";
    static const uint32_t wanted[] = {3, 2, 3, 0, 1};
    const char *path = in_folder(state, "unigram.json");
    kerf_token_list list;
    kerf_error err = {0};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(file, f);
    fclose(f);
    kerf_tokenizer *t = open_tokenizer(path);
    must(kerf_tokenizer_encode(t, "abbabxyza", 9, NULL, &list, &err), &err);
    assert_int_equal(list.count, 5);
    assert_memory_equal(list.token, wanted, sizeof wanted);
    kerf_token_list_free(&list);
    kerf_tokenizer_close(t);
}

static void test_absent(void **state)
{
    kerf_tokenizer *t;
    kerf_error err = {0};
    assert_int_equal(kerf_tokenizer_open(in_folder(state, "none.json"), &t, &err), KERF_E_IO);
    assert_int_equal(kerf_tokenizer_open(KERF_TEST_DATA, &t, &err), KERF_E_IO);
    assert_non_null(strstr(err.text, "no tokenizer.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_absent),  cmocka_unit_test(test_equal_ways),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
