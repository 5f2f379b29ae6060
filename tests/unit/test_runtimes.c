/* test_runtimes.c - what runtimes load: every line of the table means something, and the answers
 * that people ask for most. */
#include <kerf/runtimes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static kerf_status ask(const char *runtime, const char *layout, const char *format,
                       const char *machine, kerf_error *err)
{
    const kerf_runtime *r = NULL;
    const kerf_layout *l = kerf_layout_find(layout);
    const kerf_format *f = kerf_format_find(format);
    const kerf_hardware *h = machine ? kerf_hardware_find(machine) : NULL;
    assert_int_equal(kerf_runtime_get(runtime, &r, err), KERF_OK);
    assert_true(l && f && (h || !machine));
    return kerf_runtime_check(r, l, f, h, NULL, err);
}

static void the_usual_questions(void **state)
{
    static const struct {
        const char *runtime, *layout, *format, *machine, *why; /* why NULL: it is loaded */
    } cases[] = {
        {"vLLM", "compressed-tensors", "nvfp4", "h100", NULL},
        {"vllm", "compressed-tensors", "nvfp4", "rtx5090", NULL},
        {"vllm", "compressed-tensors", "fp8-e4m3-row", "a100", NULL},
        {"vllm", "compressed-tensors", "int8", "h100", NULL},
        {"vllm", "compressed-tensors", "int8", "b200", "from sm_75 to before sm_100"},
        {"vllm", "compressed-tensors", "mxfp4", "b200", "from sm_80 to before sm_100"},
        {"vllm", "compressed-tensors", "int4-g128-asym", "rtx4090", NULL},
        {"vllm", "compressed-tensors", "int2-g32", "h100", "does not load"},
        {"vllm", "compressed-tensors", "mxfp6-e2m3", NULL, "does not load"},
        {"vllm", "modelopt", "fp8-e4m3-row", "a100", NULL},
        {"vllm", "modelopt", "fp8-e4m3-row", "t4", "from sm_80 on"},
        {"vllm", "gguf", "nvfp4", NULL, "does not load"},
        {"SGLang", "compressed-tensors", "int4-g128", "h100", NULL},
        {"sglang", "compressed-tensors", "int4-g128-asym", "h100", NULL},
        {"sglang", "compressed-tensors", "int4-g128-asym", "t4", "from sm_80 on"},
        {"sglang", "compressed-tensors", "fp8-e4m3-row", "a100", NULL},
        {"sglang", "compressed-tensors", "fp8-e4m3-128x128", "a100", "from sm_89 on"},
        {"sglang", "modelopt", "nvfp4", "h100", NULL},
        {"sglang", "modelopt", "mxfp8-e4m3", "b200", "does not load"},
        {"sglang", "deepseek", "fp8-e4m3-128x128", "h100", "does not load"},
        {"vllm", "bitsandbytes", "nf4", "h100", "does not load"},
        {"TensorRT-LLM", "modelopt", "fp8-e4m3-row", "h200", NULL},
        {"trtllm", "modelopt", "fp8-e4m3-row", "b200", "on sm_90 alone"},
        {"trtllm", "modelopt", "fp8-e4m3-128x128", "rtx5090", "to before sm_110"},
        {"trtllm", "compressed-tensors", "nvfp4", "b200", "does not load"},
        {"transformers", "bitsandbytes", "nf4-dq", "t4", NULL},
        {"transformers", "compressed-tensors", "int4-g128", "h100", NULL},
        {"transformers", "compressed-tensors", "int4-g32-asym", "h100", "does not load"},
        {"transformers", "deepseek", "fp8-e4m3-128x128", "a100", "from sm_89 on"},
        {"llama.cpp", "gguf", "nvfp4", "epyc-9654", NULL}, /* no sm: not looked at */
        {"llamacpp", "gguf", "ggml-q8_0", "m4-max", NULL},
        {"llamacpp", "gguf", "nf4", NULL, "has no place for it"},
        {"transformers", "compressed-tensors", "q4_k", NULL, "has no place for it"},
        {"vllm", "gptq", "int2-g16", "h100", "has no place for it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_error err = {0};
        const kerf_status s =
            ask(cases[i].runtime, cases[i].layout, cases[i].format, cases[i].machine, &err);
        if (!cases[i].why && s != KERF_OK) fail_msg("%zu: %s", i, err.text);
        if (!cases[i].why) continue;
        if (s != KERF_E_NOSUP || !strstr(err.text, cases[i].why))
            fail_msg("%zu: %d, no \"%s\" in: %s", i, (int)s, cases[i].why, err.text);
    }
}

/* A runtime has a layout of its own that kerf writes, and loads something from it; whatever it
 * loads, from any layout, that layout can hold, and the source of it is said. */
static void the_table_fits_the_layouts(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_runtime_count(); i++) {
        const kerf_runtime *r = kerf_runtime_at(i);
        const kerf_layout *usual = kerf_layout_find(r->layout);
        size_t found = 0;
        assert_non_null(usual);
        for (size_t k = 0; k < kerf_layout_count(); k++) {
            const kerf_layout *l = kerf_layout_at(k);
            for (size_t n = 0; n < kerf_format_count(); n++) {
                const kerf_format *f = kerf_format_at(n);
                kerf_runtime_way way = {0};
                int written;
                if (kerf_runtime_check(r, l, f, NULL, &way, NULL) != KERF_OK) continue;
                if (!kerf_layout_scheme(l, f, &written))
                    fail_msg("%s loads %s from %s, which cannot hold it", r->name, f->name,
                             l->name);
                found += l == usual && written;
                assert_true(strlen(way.how) > 5 && strlen(way.source) > 10);
                assert_true(way.most_sm == 0 || way.most_sm >= way.least_sm);
            }
        }
        assert_true(found > 0);
    }
    assert_null(kerf_runtime_at(kerf_runtime_count()));
}

static void an_unknown_runtime_is_told_which_there_are(void **state)
{
    const kerf_runtime *r = NULL;
    kerf_error err = {0};
    (void)state;
    assert_int_equal(kerf_runtime_get("ollama", &r, &err), KERF_E_ARG);
    assert_non_null(
        strstr(err.text, "expected one of vllm, sglang, trtllm, transformers, llama.cpp"));
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_questions),
        cmocka_unit_test(the_table_fits_the_layouts),
        cmocka_unit_test(an_unknown_runtime_is_told_which_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
