/* test_names.c - what people type: formats, layouts and machines under the names that they have
 * elsewhere, and what is said of names that mean none of them, or several. */
#include <ctype.h>
#include <kerf/advise.h>
#include <kerf/cuda.h>
#include <kerf/file.h>
#include <kerf/hardware.h>
#include <kerf/layouts.h>
#include <kerf/measure.h>
#include <kerf/words.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As somebody might write it: upper case, underscores for dashes and slashes. */
static const char *shouted(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s", name);
    for (char *p = out; *p; p++) {
        if (*p == '-' || *p == '/') *p = '_';
        *p = (char)toupper((unsigned char)*p);
    }
    return out;
}

static void every_codec_is_found_without_case_and_dashes(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++) {
            char name[64], loud[64];
            const kerf_codec want = {f, kerf_encoder_at(f, e)};
            kerf_codec got = {0};
            kerf_error err = {0};
            kerf_codec_name(want, name, sizeof name);
            assert_int_equal(kerf_codec_find(shouted(name, loud, sizeof loud), &got, &err),
                             KERF_OK);
            assert_ptr_equal(got.format, want.format);
            assert_ptr_equal(got.encoder, want.encoder);
        }
    }
}

static void names_of_others_are_known(void **state)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"NVFP4", "nvfp4:amax"},
        {"NV-FP4", "nvfp4:amax"},
        {"nvfp4:4-6", "nvfp4:4/6"},
        {"half", "fp16:rne"},
        {"BFloat16", "bf16:rne"},
        {"float32", "fp32:rne"},
        {"Q8_0", "ggml-q8_0:ggml"},
        {"q4_0", "ggml-q4_0:ggml"},
        {"INT4_G128", "int4-g128:amax"},
        {"fp8_e4m3fn", "fp8-e4m3:amax"},
        {"LLM.int8", "int8:amax"},
        {"FP8-Block", "fp8-e4m3-128x128:amax"},
        {"FP8_DYNAMIC", "fp8-e4m3-row:amax"},
        {"NVFP4A16", "nvfp4:amax"},
        {"fp8_pb_wo", "fp8-e4m3-128x128:amax"},
        {"MXFP4A16", "mxfp4:even"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        kerf_codec got = {0};
        kerf_error err = {0};
        if (kerf_codec_find(cases[i].text, &got, &err) != KERF_OK) fail_msg("%s", err.text);
        assert_string_equal(kerf_codec_name(got, name, sizeof name), cases[i].name);
    }
}

/* The answer has to hold `has` and must not hold `lacks`. */
typedef struct answer {
    const char *text, *has, *lacks;
} answer;

static void check_answer(const answer *a, kerf_status s, const kerf_error *err)
{
    if (s != KERF_E_ARG) fail_msg("%s: status %d", a->text, (int)s);
    if (!strstr(err->text, a->has)) fail_msg("%s: no \"%s\" in: %s", a->text, a->has, err->text);
    if (a->lacks && strstr(err->text, a->lacks))
        fail_msg("%s: \"%s\" in: %s", a->text, a->lacks, err->text);
    if (strlen(err->text) > 400) fail_msg("%s: long: %s", a->text, err->text);
}

static void no_other_format_is_suggested(void **state)
{
    static const answer cases[] = {
        {"FP8", "usual is fp8-e4m3-row", "did you mean"},
        {"fp8", "fp8-e5m2-128x128", "mxfp8"},
        {"int4", "usual is int4-g128 ", "int8"},
        {"int4", "int4-g128-asym-f16", NULL},
        {"int2", "for research only", NULL},
        {"mxfp8", "usual is mxfp8-e4m3 ", "mxfp4"},
        {"MXFP6", "usual is mxfp6-e2m3 ", "mxfp4"},
        {"fp4", "nvfp4", "fp8"},
        {"awq", "int4-g128-asym-f16:awq", "did you mean"},
        {"AWQ", "scales channels", NULL},
        {"gptq", "--layout gptq", "did you mean"},
        {"q4_k_m", "mixture of llama.cpp's, most of it q4_k,", "did you mean"},
        {"Q4_K_M", "-f q4_k is that block type", "did you mean"},
        {"Q5-K-S", "most of it q5_k,", "mxfp6"},
        {"iq2_xxs", "block type of llama.cpp that kerf does not have; it has ggml-q8_0", NULL},
        {"q4", "block type of llama.cpp that kerf does not have; it has ggml-q8_0", NULL},
        {"w4a16", "int4-g128", NULL},
        {"W4A16_ASYM", "int4-g128-asym with --layout compressed-tensors", "unknown"},
        {"W4AFP8", "no 4-bit integers for FP8 activations", "unknown"},
        {"w4a8", "no scheme", "unknown"},
        {"NVFP4_DEFAULT_CFG", "nvfp4:modelopt with --layout modelopt", "unknown"},
        {"FP8_DEFAULT_CFG", "--input-scales", "unknown"},
        {"nvfp4_awq", "without its scaling", "unknown"},
        {"MXFP4_MOE", "'*exps*=ggml-mxfp4'", "unknown"},
        {"COPY", "kerf convert IN -o OUT.gguf", "unknown"},
        {"gguf", "-o OUT.gguf", NULL},
        {"int3", "does not exist", "did you mean"},
        {"nf8", "kerf formats lists them", "nf4"},
        {"nvfp5", "kerf formats lists them", "nvfp4"},
        {"nvfp8", "kerf formats lists them", "nvfp4"},
        {"fp16x", "did you mean \"fp16\"", "bf16"},
        {"nvpf4", "did you mean \"nvfp4\"", NULL},
        {"nfvp4", "did you mean \"nvfp4\"", NULL},
        {"mvfp4", "kerf formats lists them", "did you mean"}, /* mxfp4 and nvfp4 are as near */
        {"int4-awq", "Model-Optimizer's name", "int4-row"},
        {"int4-g12", "int4-g128", "int4-g32"},
        {"qqq", "kerf formats lists them", "did you mean"},
        {"", "kerf formats lists them", "did you mean"},
        {"-", "kerf formats lists them", "did you mean"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_codec got = {0};
        kerf_error err = {0};
        check_answer(&cases[i], kerf_codec_find(cases[i].text, &got, &err), &err);
    }
}

static void layouts_are_found(void **state)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"Compressed_Tensors", "compressed-tensors"},
        {"ct", "compressed-tensors"},
        {"llm-compressor", "compressed-tensors"},
        {"BNB", "bitsandbytes"},
        {"ModelOpt", "modelopt"},
        {"gptqv2", "gptq-v2"},
        {"llama.cpp", "gguf"},
        {"KERF", "kerf"},
    };
    static const answer wrong[] = {
        {"vllm", "is a program, no layout; it loads compressed-tensors", NULL},
        {"TensorRT-LLM", "it loads modelopt", NULL},
        {"onnx", "expected one of kerf, modelopt", NULL},
        {"", "expected one of", NULL},
    };
    const kerf_layout *got = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_error err = {0};
        if (kerf_layout_get(cases[i].text, &got, &err) != KERF_OK) fail_msg("%s", err.text);
        assert_string_equal(got->name, cases[i].name);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kerf_error err = {0};
        check_answer(&wrong[i], kerf_layout_get(wrong[i].text, &got, &err), &err);
    }
}

static void machines_are_found(void **state)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"RTX-4090", "rtx4090"},
        {"4090", "rtx4090"},
        {"rtx_4090", "rtx4090"},
        {"NVIDIA GeForce RTX 4090", "rtx4090"},
        {"geforce 5090", "rtx5090"},
        {"H100", "h100"},
        {"h100 pcie", "h100-pcie"},
        {"NVIDIA H100 PCIe", "h100-pcie"},
        {"A100-80GB", "a100"},
        {"DGX Spark", "gb10"},
        {"L40S", "l40s"},
        {"epyc 9654", "epyc-9654"},
        {"a100 40 gb", "a100-40"},
    };
    static const answer wrong[] = {
        {"H20", "kerf hardware lists them", "h200"},
        {"h101", "kerf hardware lists them", "h100"},
        {"PCIe", "names 2 machines: a100-pcie, h100-pcie", NULL},
        {"rtx 40", "kerf hardware lists them", "rtx4090"},
        {"rtx490", "kerf hardware lists them", "rtx4090"},
        {"h20o", "kerf hardware lists them", "h200"},
        {"", "kerf hardware lists them", NULL},
        {"---", "kerf hardware lists them", NULL},
    };
    kerf_hardware *got = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_error err = {0};
        if (kerf_hardware_get(cases[i].text, &got, &err) != KERF_OK) fail_msg("%s", err.text);
        assert_string_equal(got->name, cases[i].name);
        kerf_hardware_close(got);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kerf_error err = {0};
        check_answer(&wrong[i], kerf_hardware_get(wrong[i].text, &got, &err), &err);
        kerf_hardware_close(got);
    }
    for (size_t i = 0; i < kerf_hardware_count(); i++) { /* each under its own name and title */
        const kerf_hardware *h = kerf_hardware_at(i);
        const char *const texts[] = {h->name, h->title};
        for (size_t k = 0; k < 2; k++) {
            char loud[96];
            kerf_error err = {0};
            if (kerf_hardware_get(shouted(texts[k], loud, sizeof loud), &got, &err) != KERF_OK)
                fail_msg("%s", err.text);
            assert_string_equal(got->name, h->name);
            kerf_hardware_close(got);
        }
    }
}

static void words_are_compared_by_letters_and_digits(void **state)
{
    static const char *const verbs[] = {"score", "serve", "selftest", NULL};
    static const char *const gpus[] = {"h100", "h200", "h100-pcie", NULL};
    (void)state;
    assert_true(kerf_names_match("NV-FP4", "nvfp4"));
    assert_false(kerf_names_match("nvfp4", "nvfp4x"));
    assert_false(kerf_names_match("", ""));
    assert_false(kerf_names_match("-", "_"));
    assert_true(kerf_name_begins("fp8-e4m3", "FP8"));
    assert_false(kerf_name_begins("fp8", "fp8-e4m3"));
    assert_string_equal(kerf_nearest_word("scroe", verbs), "score");
    assert_string_equal(kerf_nearest_word("SELF", verbs), "selftest");
    assert_null(kerf_nearest_word("sc", verbs));
    assert_null(kerf_nearest_word("h300", gpus));
    assert_string_equal(kerf_nearest_word("hh100", gpus), "h100");
    assert_string_equal(kerf_nearest_word("h100-pci", gpus), "h100-pcie");
}

/* --- words that pick several, and limits --- */

static void codecs_are_picked_by_words(void **state)
{
    kerf_codec_list l = {0};
    kerf_error err = {0};
    size_t picked = 0, named = 0;
    char name[64];
    (void)state;
    assert_int_equal(kerf_codec_list_add(&l, "NVFP4:*", &picked, &err), KERF_OK);
    assert_int_equal(picked, kerf_encoder_count(kerf_format_find("nvfp4")));
    assert_int_equal(l.count, picked);
    assert_int_equal(kerf_codec_list_add(&l, "nvfp4", &picked, &err), KERF_OK);
    assert_int_equal(picked, 1);
    assert_int_equal(kerf_codec_list_add(&l, "int8", &picked, &err), KERF_OK);
    assert_int_equal(l.count, kerf_encoder_count(kerf_format_find("nvfp4")) + 1); /* each once */
    for (size_t i = 0; i < l.count; i++) {
        kerf_codec_name(l.codec[i], name, sizeof name);
        const int is_default =
            strcmp(l.codec[i].format->default_encoder, l.codec[i].encoder->name) == 0;
        assert_int_equal(l.named[i], is_default);
        named += l.named[i];
    }
    assert_int_equal(named, 2);
    assert_int_equal(kerf_codec_list_add(&l, "zzz*", &picked, &err), KERF_OK);
    assert_int_equal(picked, 0);
    assert_int_not_equal(kerf_codec_list_add(&l, "nvfp5", &picked, &err), KERF_OK);
    assert_non_null(strstr(err.text, "nvfp5"));
    assert_int_equal(kerf_codec_list_add(&l, "all", &picked, &err), KERF_OK);
    assert_int_equal(l.count, picked);
    for (size_t i = 1; i < l.count; i++) /* in the order of the table */
        assert_true(l.codec[i].format >= l.codec[i - 1].format);
    kerf_codec_list_free(&l);
    kerf_codec_list_free(&l);
}

static void limits_are_read(void **state)
{
    static const char *const wrong[] = {"",          "bits",         "0bits",         "-3GiB",
                                        "4.5apples", "5bits:likely", "60tok/s:maybe", "1e400us",
                                        "nan"};
    kerf_budget b = {0};
    kerf_error err = {0};
    (void)state;
    assert_int_equal(kerf_budget_read("4.5", &b, &err), KERF_OK);
    assert_int_equal(kerf_budget_read("3GiB", &b, &err), KERF_OK);
    assert_int_equal(kerf_budget_read("1.5ms", &b, &err), KERF_OK);
    assert_true(b.bits == 4.5 && b.bytes == 3 * 0x1p30 && b.us == 1500 && !b.likely);
    assert_int_equal(kerf_budget_read("60tok/s:likely", &b, &err), KERF_OK);
    assert_true(b.tokens_per_s == 60 && b.likely && b.bits == 4.5 && b.t2 == 0);
    const kerf_budget before = b;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kerf_budget_read(wrong[i], &b, &err), KERF_E_ARG);
        assert_memory_equal(&b, &before, sizeof b);
    }
}

/* Bits are held to a limit as they are printed. */
static void bits_have_three_digits(void **state)
{
    (void)state;
    assert_true(kerf_bits_most(4.5) >= 4.500002 && kerf_bits_most(4.5) < 4.5005);
    assert_true(kerf_bits_most(4.551) >= 4.5514 && kerf_bits_most(4.551) < 4.5515);
    assert_true(kerf_bits_most(4.2497) == 4.2497); /* what a refusal has said would do */
    assert_true(kerf_bits_most(4.2501) >= 4.2504);
    assert_true(isinf(kerf_bits_most(INFINITY)));
    for (int i = 1; i < 64000; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.3f", kerf_bits_most(i / 1e3));
        assert_int_equal((int)(strtod(text, NULL) * 1e3 + 0.5), i);
    }
}

static void gpus_are_named(void **state)
{
    static const char *const wrong[] = {"",        "gpu",     "cuda:",     "cuda:0,", "cuda:x",
                                        "cuda:-1", "cuda:0x", "cuda:1234", "CPU"};
    kerf_device_list l;
    kerf_error err = {0};
    char many[400] = "cuda:0";
    (void)state;
    assert_int_equal(kerf_devices_find("cpu", &l, &err), KERF_OK);
    assert_int_equal(l.count, 0);
    assert_int_equal(kerf_devices_find("cuda", &l, &err), KERF_OK);
    assert_true(l.count == 1 && l.ordinal[0] == 0);
    assert_int_equal(kerf_devices_find("cuda:3,0,3", &l, &err), KERF_OK);
    assert_true(l.count == 3 && l.ordinal[0] == 3 && l.ordinal[1] == 0 && l.ordinal[2] == 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(kerf_devices_find(wrong[i], &l, &err), KERF_E_ARG);
    for (int i = 0; i < KERF_DEVICES_MOST; i++) strcat(many, ",1");
    assert_int_equal(kerf_devices_find(many, &l, &err), KERF_E_ARG); /* one too many */
}

/* As huggingface_hub names the folders of its cache. */
static void models_of_the_hub_are_found(void **state)
{
    static const char *const wrong[] = {"org",       "org/other",   "org/name/more",
                                        "./name",    "../name",     "org/.name",
                                        "or g/name", "models--org", ""};
    char cache[] = "/tmp/kerf-hub.XXXXXX", folder[100], out[200], small[40];
    (void)state;
    assert_non_null(mkdtemp(cache));
    snprintf(folder, sizeof folder, "%s/models--org--name", cache);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_true(kerf_hub_folder(cache, "org/name", out, sizeof out));
    assert_string_equal(out, folder);
    assert_true(kerf_hub_folder(cache, "org/name/", out, sizeof out));
    assert_true(kerf_hub_folder(cache, "models--org--name", out, sizeof out));
    assert_string_equal(out, folder);
    assert_false(kerf_hub_folder(cache, "org/name", small, 20));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(kerf_hub_folder(cache, wrong[i], out, sizeof out));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(cache), 0);
}

static void reports_are_named_by_their_ends(void **state)
{
    kerf_advice_kind kind = KERF_ADVICE_RECIPE;
    (void)state;
    assert_false(kerf_advice_kind_of("report.txt", &kind));
    assert_false(kerf_advice_kind_of("html", &kind));
    assert_int_equal(kind, KERF_ADVICE_RECIPE);
    assert_true(kerf_advice_kind_of("a/report.html", &kind) && kind == KERF_ADVICE_HTML);
    assert_true(kerf_advice_kind_of("report.md", &kind) && kind == KERF_ADVICE_MARKDOWN);
    assert_true(kerf_advice_kind_of("report.html.json", &kind) && kind == KERF_ADVICE_JSON);
}

/* A tuning is for the architecture that it was found on. */
static void tunings_are_of_a_gpu(void **state)
{
    const kerf_gemv_tuning tuning = {.rules = KERF_GEMV_RULES};
    const kerf_device_info hopper = {.compute_major = 9},
                           ada = {.compute_major = 8, .compute_minor = 9};
    const kerf_gemv_tuning *found = NULL;
    kerf_hardware h = *kerf_hardware_find("h200");
    kerf_error err = {0};
    (void)state;
    assert_int_equal(kerf_hardware_tuning(&h, &hopper, &found, &err), KERF_E_ARG); /* has none */
    h.tuning = &tuning;
    assert_int_equal(kerf_hardware_tuning(&h, &ada, &found, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "sm_89"));
    assert_null(found);
    assert_int_equal(kerf_hardware_tuning(&h, &hopper, &found, &err), KERF_OK);
    assert_ptr_equal(found, &tuning);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_is_found_without_case_and_dashes),
        cmocka_unit_test(names_of_others_are_known),
        cmocka_unit_test(no_other_format_is_suggested),
        cmocka_unit_test(layouts_are_found),
        cmocka_unit_test(machines_are_found),
        cmocka_unit_test(words_are_compared_by_letters_and_digits),
        cmocka_unit_test(codecs_are_picked_by_words),
        cmocka_unit_test(limits_are_read),
        cmocka_unit_test(bits_have_three_digits),
        cmocka_unit_test(gpus_are_named),
        cmocka_unit_test(reports_are_named_by_their_ends),
        cmocka_unit_test(tunings_are_of_a_gpu),
        cmocka_unit_test(models_of_the_hub_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
