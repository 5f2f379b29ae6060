/* test_hash.c - kerf_hash is XXH64 with seed 0. The expected values are those of the reference
 * library 0.8.4 (python3: xxhash.xxh64(data).hexdigest()), at every length where the code takes
 * another path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kerf/checksums.h>
#include <kerf/codec.h>

static const struct {
    size_t n;
    uint64_t hash;
} vectors[] = {
    {0, 0xef46db3751d8e999},    {1, 0xa96c7f0ce858bbb7},    {2, 0xc22c6a70ad56bba6},
    {3, 0xbed43740ee6332bb},    {4, 0xfa212ae44b3bb23d},    {5, 0xd339dcc9ac8e6776},
    {7, 0x2744460dd675d2c0},    {8, 0x994b676b71ce94dd},    {9, 0x572b84c18b983af8},
    {11, 0x97f078da7a1a590c},   {12, 0xb92f588ce720786e},   {13, 0xdadc8a6255b4829b},
    {15, 0x09e6451ed2ff8b1d},   {16, 0x94ad0095e72b24d5},   {31, 0x6711d55e306b5d8f},
    {32, 0x07f7b8e3bc5d6e25},   {33, 0x09f85eeb4e1cbe9f},   {35, 0x25cc31e4544bc8c9},
    {36, 0xe7ac625222f2b655},   {39, 0xb13c137a0fb701c3},   {40, 0xd25150177ba46490},
    {63, 0xb7c9968c066cb6a5},   {64, 0x50d4159a0411632e},   {65, 0xd277176bff863efc},
    {95, 0x928c35b989d3c594},   {96, 0x18c8f362eb735341},   {127, 0x54cf771b5423f6a7},
    {128, 0x0430e433b792e757},  {1000, 0x243da8e384081251}, {4096, 0x9bcce46bdba33f9f},
    {5000, 0x1f4d3f87aad5c072},
};

static void test_vectors(void **state)
{
    (void)state;
    static unsigned char data[5000 + 8];
    for (size_t shift = 0; shift < 8; shift++) { /* any alignment */
        for (size_t i = 0; i < 5000; i++) data[shift + i] = (unsigned char)(i * 131 + i / 251 + 7);
        for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
            assert_int_equal(kerf_hash(data + shift, vectors[k].n), vectors[k].hash);
    }
}

static void test_strings(void **state)
{
    (void)state;
    static const char text[] = "Nobody inspects the spammish repetition";
    assert_int_equal(kerf_hash(NULL, 0), 0xef46db3751d8e999);
    assert_int_equal(kerf_hash("abc", 3), 0x44bc2cf5ad770999);
    assert_int_equal(kerf_hash(text, strlen(text)), 0xfbcea83c8a378bf1);
}

/* The examples of FIPS 180-4, and the lengths around which its padding changes, from Python's
 * hashlib. */
static void sha256_is_that_of_the_standard(void **state)
{
    static const struct {
        size_t n;
        const char *digest;
    } of_a[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
        {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    char out[KERF_SHA256_TEXT], *a = malloc(1000000);
    (void)state;
    assert_non_null(a);
    memset(a, 'a', 1000000);
    assert_string_equal(kerf_sha256("abc", 3, out),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++)
        assert_string_equal(kerf_sha256(a, of_a[i].n, out), of_a[i].digest);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(sha256_is_that_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
