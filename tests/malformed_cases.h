/* malformed_cases.h - the table of malformed.h, which includes it. */
#ifndef KERF_TESTS_MALFORMED_CASES_H
#define KERF_TESTS_MALFORMED_CASES_H

#define ENTRY(dtype, shape, offsets) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\":" ENTRY(dtype, shape, offsets) "}"
#define TWO(first, second) "{\"a\":" first ",\"b\":" second "}"
#define F32AT(shape, offsets) ENTRY("\"F32\"", shape, offsets)

#define BAD(name, message, header, data)                             \
    {                                                                \
        name, FILE_CASE, KERF_E_DATA, message, header, 0, data, NULL \
    }
#define LIMIT(name, message, header, data)                            \
    {                                                                 \
        name, FILE_CASE, KERF_E_LIMIT, message, header, 0, data, NULL \
    }
#define BYTES(name, message, text)                                           \
    {                                                                        \
        name, RAW_CASE, KERF_E_DATA, message, text, sizeof text - 1, 0, NULL \
    }
#define WITH_NUL(name, message, header, data)                                        \
    {                                                                                \
        name, FILE_CASE, KERF_E_DATA, message, header, sizeof header - 1, data, NULL \
    }
#define INDEXED(name, message, text)                             \
    {                                                            \
        name, INDEX_CASE, KERF_E_DATA, message, text, 0, 0, NULL \
    }
#define MAPPED(name, message, map) \
    INDEXED(name, message, "{\"metadata\":{},\"weight_map\":" map "}")
#define PACKED(name, status, message, how)                     \
    {                                                          \
        name, PACKED_CASE, status, message, NULL, 0, how, NULL \
    }
#define DESCRIBED(name, status, message, text)               \
    {                                                        \
        name, LAYOUT_CASE, status, message, text, 0, 0, NULL \
    }
#define QUANT(fields) "{\"version\":1,\"tensors\":{\"w.weight\":{" fields "}}}"
#define LAYOUT(layout, name, format, shape)                                                     \
    "{\"tensors\":{\"" name "\":{\"format\":\"" format "\",\"dtype\":\"BF16\",\"shape\":" shape \
    "}},\"layout\":\"" layout "\",\"version\":1}"
#define MADE(name, status, message, make)                  \
    {                                                      \
        name, MAKE_CASE, status, message, NULL, 0, 0, make \
    }

/* clang-format off */
static const struct malformed malformed_cases[] = {
    /* the first 8 bytes */
    BYTES("empty", "too short", ""),
    BYTES("seven-bytes", "too short", "\2\0\0\0\0\0\0"),
    BYTES("no-header", "is empty", "\0\0\0\0\0\0\0\0"),
    BYTES("n-beyond-file", "claims 100 bytes", "\144\0\0\0\0\0\0\0{}"),
    BYTES("n-100-mb-claimed", "claims 100000001 bytes", "\1\341\365\5\0\0\0\0{}"),
    BYTES("n-largest", "claims 18446744073709551615", "\377\377\377\377\377\377\377\377{}"),
    BYTES("n-2-to-63", "claims 9223372036854775808", "\0\0\0\0\0\0\0\200{}"),
    BYTES("n-wraps", "claims 18446744073709551608", "\370\377\377\377\377\377\377\377{}"),
    BYTES("n-one-too-many", "claims 3 bytes", "\3\0\0\0\0\0\0\0{}"),
    BYTES("n-one-too-few", "does not end", "\1\0\0\0\0\0\0\0{}"),
    BYTES("not-safetensors", "not a safetensors file", "PK\3\4 this is a zip archive"),

    /* JSON as such */
    BAD("space-before-brace", "does not start with '{'", " {}", 0),
    BAD("byte-order-mark", "does not start with '{'", "\xef\xbb\xbf{}", 0),
    BAD("array", "does not start with '{'", "[]", 0),
    BAD("string", "does not start with '{'", "\"a\"", 0),
    BAD("number", "does not start with '{'", "1", 0),
    BAD("null", "does not start with '{'", "null", 0),
    MADE("only-spaces", KERF_E_DATA, "does not start with '{'", make_only_spaces),
    BAD("garbage-after", "bytes follow", "{}x", 0),
    BAD("object-after", "bytes follow", "{}{}", 0),
    WITH_NUL("nul-after", "NUL bytes follow", "{}\0\0\0\0\0\0", 0),
    BAD("not-closed", "does not end", "{", 0),
    BAD("closed-by-bracket", "in quotes", "{]", 0),
    BAD("string-not-closed", "does not end", "{\"a", 0),
    BAD("escape-at-end", "does not end", "{\"a\\", 0),
    BAD("comma-at-end", "in quotes", "{\"a\":" MALFORMED_GOOD ",}", 8),
    BAD("comma-alone", "in quotes", "{,}", 0),
    BAD("comma-doubled", "in quotes", "{\"a\":" MALFORMED_GOOD ",,\"b\":" MALFORMED_GOOD "}", 8),
    BAD("comma-missing", "not valid JSON", "{\"a\":" MALFORMED_GOOD " \"b\":" MALFORMED_GOOD "}", 8),
    BAD("colon-missing", "':' must follow", "{\"a\" " MALFORMED_GOOD "}", 8),
    BAD("colon-doubled", "not valid JSON", "{\"a\"::" MALFORMED_GOOD "}", 8),
    BAD("value-missing", "not valid JSON", "{\"a\":}", 0),
    BAD("single-quotes", "in quotes", "{'a':" MALFORMED_GOOD "}", 8),
    BAD("no-quotes", "in quotes", "{a:" MALFORMED_GOOD "}", 8),
    BAD("comment", "in quotes", "{/* */\"a\":" MALFORMED_GOOD "}", 8),
    BAD("brackets-crossed", "not valid JSON", "{\"a\":{\"dtype\":[}]}", 0),
    BAD("depth-4", "nested too deep", "{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8),
    BAD("depth-4-ignored-field", "nested too deep", "{\"a\":{\"x\":{\"y\":[1]}}}", 0),
    MADE("depth-100000", KERF_E_DATA, "nested too deep", make_deep_nesting),
    BAD("utf8-broken", "not valid JSON", "{\"a\xff\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-overlong", "not valid JSON", "{\"a\xc0\xaf\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-surrogate", "not valid JSON", "{\"a\xed\xa0\x80\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-cut", "not valid JSON", "{\"a\xe2\x82\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-broken-outside", "not valid JSON", "{\"a\":\xff" MALFORMED_GOOD "}", 8),
    BAD("escape-lone-surrogate", "not valid JSON", "{\"\\ud800\":" MALFORMED_GOOD "}", 8),
    BAD("escape-unknown", "not valid JSON", "{\"\\x41\":" MALFORMED_GOOD "}", 8),
    BAD("escape-nul-in-name", "NUL in a string", "{\"a\\u0000b\":" MALFORMED_GOOD "}", 8),
    WITH_NUL("raw-nul-in-name", "NUL in a string", "{\"a\0b\":" MALFORMED_GOOD "}", 8),
    BAD("newline-in-name", "not valid JSON", "{\"a\nb\":" MALFORMED_GOOD "}", 8),

    /* names that occur twice */
    BAD("tensor-twice", "the name occurs twice", "{\"a\":" MALFORMED_GOOD ",\"a\":" F32AT("[2]", "[8,16]") "}", 16),
    BAD("tensor-twice-same-bytes", "the name occurs twice", "{\"a\":" MALFORMED_GOOD ",\"a\":" MALFORMED_GOOD "}", 8),
    BAD("tensor-twice-escaped", "the name occurs twice", "{\"a\":" MALFORMED_GOOD ",\"\\u0061\":" F32AT("[2]", "[8,16]") "}", 16),
    BAD("dtype-twice", "duplicate object key", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
    BAD("shape-twice", "duplicate object key", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
    BAD("offsets-twice", "duplicate object key", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"data_offsets\":[0,8]}}", 8),
    BAD("metadata-twice", "two members are named __metadata__", "{\"__metadata__\":{},\"__metadata__\":{}}", 0),
    BAD("metadata-key-twice", "key \"k\" occurs twice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0),

    /* entries */
    BAD("entry-array", "not a JSON object", "{\"a\":[]}", 0),
    BAD("entry-number", "not a JSON object", "{\"a\":1}", 0),
    BAD("entry-string", "not a JSON object", "{\"a\":\"F32\"}", 0),
    BAD("entry-null", "not a JSON object", "{\"a\":null}", 0),
    BAD("entry-empty", "dtype is missing", "{\"a\":{}}", 0),
    BAD("dtype-missing", "dtype is missing", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
    BAD("dtype-number", "dtype is missing or not a string", ONE("32", "[2]", "[0,8]"), 8),
    BAD("dtype-null", "dtype is missing or not a string", ONE("null", "[2]", "[0,8]"), 8),
    BAD("dtype-array", "dtype is missing or not a string", ONE("[\"F32\"]", "[2]", "[0,8]"), 8),
    BAD("dtype-unknown", "unknown dtype \"F31\"", ONE("\"F31\"", "[2]", "[0,8]"), 8),
    BAD("dtype-lower-case", "unknown dtype \"f32\"", ONE("\"f32\"", "[2]", "[0,8]"), 8),
    BAD("dtype-empty", "unknown dtype \"\"", ONE("\"\"", "[2]", "[0,8]"), 8),
    BAD("dtype-question-mark", "unknown dtype \"?\"", ONE("\"?\"", "[2]", "[0,0]"), 0),
    BAD("dtype-line-break", "unknown dtype", ONE("\"F32\\n\"", "[2]", "[0,8]"), 8),
    BAD("shape-missing", "shape is missing", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8),
    BAD("shape-number", "shape is missing or not an array", ONE("\"F32\"", "2", "[0,8]"), 8),
    BAD("shape-string", "shape is missing or not an array", ONE("\"F32\"", "\"[2]\"", "[0,8]"), 8),
    BAD("shape-object", "shape is missing or not an array", ONE("\"F32\"", "{}", "[0,8]"), 8),
    BAD("shape-of-strings", "shape[0] is not an integer", ONE("\"F32\"", "[\"2\"]", "[0,8]"), 8),
    BAD("shape-of-null", "shape[0] is not an integer", ONE("\"F32\"", "[null]", "[0,8]"), 8),
    BAD("shape-of-bool", "shape[0] is not an integer", ONE("\"F32\"", "[true]", "[0,8]"), 8),
    BAD("shape-negative", "not a plain unsigned integer", ONE("\"F32\"", "[-2]", "[0,8]"), 8),
    BAD("shape-both-negative", "not a plain unsigned integer", ONE("\"F32\"", "[-1,-2]", "[0,8]"), 8),
    BAD("shape-minus-zero", "not a plain unsigned integer", ONE("\"F32\"", "[-0]", "[0,0]"), 0),
    BAD("shape-float", "not a plain unsigned integer", ONE("\"F32\"", "[2.0]", "[0,8]"), 8),
    BAD("shape-exponent", "not a plain unsigned integer", ONE("\"F32\"", "[2e0]", "[0,8]"), 8),
    BAD("shape-plus", "not valid JSON", ONE("\"F32\"", "[+2]", "[0,8]"), 8),
    BAD("shape-leading-zero", "not valid JSON", ONE("\"F32\"", "[02]", "[0,8]"), 8),
    BAD("shape-nan", "not valid JSON", ONE("\"F32\"", "[NaN]", "[0,8]"), 8),
    BAD("shape-infinity", "not valid JSON", ONE("\"F32\"", "[Infinity]", "[0,8]"), 8),
    BAD("shape-hex", "not valid JSON", ONE("\"F32\"", "[0x2]", "[0,8]"), 8),
    BAD("shape-above-2-to-53", "above 2^53", ONE("\"F32\"", "[9007199254740993,0]", "[0,0]"), 0),
    BAD("shape-above-2-to-63", "not valid JSON", ONE("\"F32\"", "[9223372036854775808]", "[0,8]"), 8),
    BAD("shape-200-digits", "not valid JSON", ONE("\"F32\"", "[99999999999999999999999999999999999999999999999999]", "[0,8]"), 8),
    BAD("shape-product-overflows", "does not fit 64 bits", ONE("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0),
    BAD("shape-product-overflows-to-8", "does not fit 64 bits", ONE("\"U8\"", "[4294967296,2147483648,2]", "[0,0]"), 0),
    BAD("shape-product-overflows-beside-0", "does not fit 64 bits", ONE("\"F32\"", "[9007199254740992,9007199254740992,0]", "[0,0]"), 0),
    BAD("shape-bits-overflow", "does not fit 64 bits", ONE("\"F64\"", "[9007199254740992,64]", "[0,0]"), 0),
    LIMIT("shape-rank-9", "at most 8", ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4),
    BAD("f4-odd", "do not fill whole bytes", ONE("\"F4\"", "[3]", "[0,1]"), 1),
    BAD("f4-odd-rounded-up", "do not fill whole bytes", ONE("\"F4\"", "[3]", "[0,2]"), 2),
    BAD("f6-e2m3-odd", "do not fill whole bytes", ONE("\"F6_E2M3\"", "[3]", "[0,3]"), 3),
    BAD("f6-e3m2-odd", "do not fill whole bytes", ONE("\"F6_E3M2\"", "[2]", "[0,2]"), 2),
    BAD("offsets-missing", "data_offsets is missing", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8),
    BAD("offsets-one", "not two integers", ONE("\"F32\"", "[2]", "[0]"), 8),
    BAD("offsets-three", "not two integers", ONE("\"F32\"", "[2]", "[0,8,8]"), 8),
    BAD("offsets-empty", "not two integers", ONE("\"F32\"", "[2]", "[]"), 8),
    BAD("offsets-number", "not two integers", ONE("\"F32\"", "[2]", "8"), 8),
    BAD("offsets-object", "not two integers", ONE("\"F32\"", "[2]", "{\"0\":0,\"1\":8}"), 8),
    BAD("offsets-of-strings", "not two integers", ONE("\"F32\"", "[2]", "[\"0\",\"8\"]"), 8),
    BAD("offsets-negative", "not a plain unsigned integer", ONE("\"F32\"", "[2]", "[-8,0]"), 8),
    BAD("offsets-float", "not a plain unsigned integer", ONE("\"F32\"", "[2]", "[0,8.0]"), 8),
    BAD("offsets-exponent", "not a plain unsigned integer", ONE("\"F32\"", "[2]", "[0,8E0]"), 8),
    BAD("offsets-end-before-begin", "before it begins", ONE("\"F32\"", "[2]", "[8,0]"), 8),
    BAD("offsets-beyond-file", "the file has 8 bytes of data", ONE("\"F32\"", "[4]", "[0,16]"), 8),
    BAD("offsets-largest", "bytes of data", ONE("\"F32\"", "[2]", "[0,9223372036854775807]"), 8),
    BAD("offsets-above-2-to-63", "not valid JSON", ONE("\"F32\"", "[2]", "[0,18446744073709551615]"), 8),
    BAD("offsets-wrap", "bytes of data", ONE("\"F32\"", "[2]", "[9223372036854775800,9223372036854775807]"), 8),
    BAD("offsets-too-short", "dtype and shape need 8", ONE("\"F32\"", "[2]", "[0,4]"), 8),
    BAD("offsets-too-long", "dtype and shape need 8", ONE("\"F32\"", "[2]", "[0,16]"), 16),
    BAD("offsets-empty-for-scalar", "dtype and shape need 4", ONE("\"F32\"", "[]", "[0,0]"), 0),
    BAD("offsets-for-empty-tensor", "dtype and shape need 0", ONE("\"F32\"", "[0]", "[0,4]"), 4),

    /* places */
    BAD("hole-at-start", "(hole)", ONE("\"F32\"", "[2]", "[8,16]"), 16),
    BAD("hole-between", "(hole)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[16,24]")), 24),
    BAD("hole-of-one-byte", "(hole)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[9,17]")), 17),
    BAD("overlap-whole", "(overlap)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[0,8]")), 8),
    BAD("overlap-part", "(overlap)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[4,12]")), 12),
    BAD("overlap-inside", "(overlap)", TWO(F32AT("[4]", "[0,16]"), F32AT("[1]", "[4,8]")), 16),
    BAD("overlap-empty-inside", "(overlap)", TWO(F32AT("[4]", "[0,16]"), F32AT("[0]", "[4,4]")), 16),
    BAD("empty-beyond-end", "bytes of data", TWO(F32AT("[2]", "[0,8]"), F32AT("[0]", "[12,12]")), 8),
    BAD("trailing-bytes", "tensors end at byte", "{\"a\":" MALFORMED_GOOD "}", 9),
    BAD("trailing-bytes-no-tensors", "tensors end at byte", "{}", 1),
    BAD("data-cut", "the file has 7 bytes of data", "{\"a\":" MALFORMED_GOOD "}", 7),
    BAD("data-absent", "the file has 0 bytes of data", "{\"a\":" MALFORMED_GOOD "}", 0),

    /* metadata */
    BAD("metadata-array", "__metadata__ is no JSON object", "{\"__metadata__\":[]}", 0),
    BAD("metadata-string", "__metadata__ is no JSON object", "{\"__metadata__\":\"pt\"}", 0),
    BAD("metadata-null", "__metadata__ is no JSON object", "{\"__metadata__\":null}", 0),
    BAD("metadata-of-number", "is not a string", "{\"__metadata__\":{\"format\":1}}", 0),
    BAD("metadata-of-null", "is not a string", "{\"__metadata__\":{\"format\":null}}", 0),
    BAD("metadata-of-object", "is not a string", "{\"__metadata__\":{\"format\":{}}}", 0),
    BAD("metadata-of-array", "is not a string", "{\"__metadata__\":{\"format\":[\"pt\"]}}", 0),
    BAD("metadata-garbage", "not valid JSON", "{\"__metadata__\":{\"format\":\"pt\"x}}", 0),

    /* bounds */
    MADE("tensors-1000002", KERF_E_LIMIT, "more than 1000000 tensors", make_many_tensors),
    MADE("name-1025-bytes", KERF_E_LIMIT, "name of 1025 bytes", make_long_name),
    MADE("entry-65537-bytes", KERF_E_LIMIT, "at most 65536", make_long_entry),

    /* the index of a folder */
    INDEXED("index-empty-file", "is empty", ""),
    INDEXED("index-array", "does not start with '{'", "[]"),
    INDEXED("index-cut", "does not end", "{\"weight_map\":{\"a\":\"s1.safetensors\""),
    INDEXED("index-garbage-after", "bytes follow", "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}} x"),
    INDEXED("index-deep", "nested too deep", "{\"metadata\":[[[[[[[[[[]]]]]]]]]]}"),
    INDEXED("index-no-map", "no weight_map", "{\"metadata\":{}}"),
    INDEXED("index-map-twice", "weight_map occurs twice", "{\"weight_map\":{\"a\":\"s1.safetensors\"},\"weight_map\":{\"b\":\"s2.safetensors\"}}"),
    INDEXED("index-metadata-bad", "not valid JSON", "{\"metadata\":{x},\"weight_map\":{\"a\":\"s1.safetensors\"}}"),
    MAPPED("index-map-empty", "no weight_map, or an empty one", "{}"),
    MAPPED("index-map-array", "not a JSON object", "[\"s1.safetensors\"]"),
    MAPPED("index-map-string", "not a JSON object", "\"s1.safetensors\""),
    MAPPED("index-value-number", "is not a string", "{\"a\":1,\"b\":\"s2.safetensors\"}"),
    MAPPED("index-value-null", "is not a string", "{\"a\":null,\"b\":\"s2.safetensors\"}"),
    MAPPED("index-value-array", "is not a string", "{\"a\":[\"s1.safetensors\"],\"b\":\"s2.safetensors\"}"),
    MAPPED("index-tensor-twice", "occurs twice", "{\"a\":\"s1.safetensors\",\"a\":\"s2.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-parent", "in this folder", "{\"a\":\"../s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-absolute", "in this folder", "{\"a\":\"/etc/s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-below", "in this folder", "{\"a\":\"sub/s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-here", "in this folder", "{\"a\":\"./s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-backslash", "in this folder", "{\"a\":\"..\\\\s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-escaped-slash", "in this folder", "{\"a\":\"..\\u002fs1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-dots", "in this folder", "{\"a\":\"..\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-dot", "in this folder", "{\"a\":\".\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-empty", "in this folder", "{\"a\":\"\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-other-file", "in this folder", "{\"a\":\"config.json\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-nul", "NUL in a string", "{\"a\":\"s1.safetensors\\u0000x\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-shard-absent", "named in the index, but not there", "{\"a\":\"s1.safetensors\",\"b\":\"s3.safetensors\"}"),
    MAPPED("index-shard-is-folder", "not a regular file", "{\"a\":\"s1.safetensors\",\"b\":\"folder.safetensors\"}"),
    MAPPED("index-shard-cut", "too short", "{\"a\":\"s1.safetensors\",\"b\":\"cut.safetensors\"}"),
    MAPPED("index-tensor-absent", "is in the index, but not in s1.safetensors", "{\"a\":\"s1.safetensors\",\"a1\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-tensor-unlisted", "\"a2\" is in s1.safetensors, but not in the index", "{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"b2\":\"s2.safetensors\"}"),
    MAPPED("index-wrong-shard", "the index says", "{\"a\":\"s2.safetensors\",\"a2\":\"s2.safetensors\",\"b\":\"s1.safetensors\",\"b2\":\"s1.safetensors\"}"),
    MAPPED("index-tensor-in-two-shards", "is in two shards", "{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"c\":\"s4.safetensors\"}"),

    /* zstd's seekable format */
    PACKED("packed-no-table", KERF_E_NOSUP, "without a seek table", PACK_NO_TABLE),
    PACKED("packed-footer-cut", KERF_E_NOSUP, "without a seek table", PACK_CUT_FOOTER),
    PACKED("packed-trailing-byte", KERF_E_NOSUP, "without a seek table", PACK_TRAILING),
    PACKED("packed-many-frames", KERF_E_DATA, "more frames than the file can hold", PACK_MANY_FRAMES),
    PACKED("packed-huge-count", KERF_E_LIMIT, "zstd frames, at most", PACK_HUGE_COUNT),
    PACKED("packed-few-frames", KERF_E_DATA, "do not end where the table begins", PACK_FEW_FRAMES),
    PACKED("packed-no-frames", KERF_E_DATA, "do not end where the table begins", PACK_NO_FRAMES),
    PACKED("packed-reserved-bits", KERF_E_DATA, "reserved bits", PACK_RESERVED),
    PACKED("packed-table-magic", KERF_E_DATA, "disagree", PACK_MAGIC),
    PACKED("packed-table-length", KERF_E_DATA, "disagree", PACK_LENGTH),
    PACKED("packed-frame-claims-more", KERF_E_DATA, "its seek table says", PACK_PLAIN_MORE),
    PACKED("packed-frame-claims-less", KERF_E_DATA, "is damaged", PACK_PLAIN_LESS),
    PACKED("packed-frame-claims-4-gb", KERF_E_LIMIT, "at most 67108864", PACK_PLAIN_HUGE),
    PACKED("packed-frame-empty", KERF_E_DATA, "an empty frame", PACK_PLAIN_ZERO),
    PACKED("packed-checksum", KERF_E_DATA, "does not match the checksum", PACK_CHECKSUM),
    PACKED("packed-damaged", KERF_E_DATA, "frame 0", PACK_DAMAGED),
    PACKED("packed-frame-fat", KERF_E_DATA, "far larger than its content", PACK_FAT),
    PACKED("packed-table-alone", KERF_E_DATA, "an empty frame", PACK_FOOTER_ALONE),
    {"packed-bad-header", PACKED_CASE, KERF_E_DATA, "does not start with '{'", "[]", 0, PACK_NOTHING, NULL},

    /* descriptions of quantized tensors */
    DESCRIBED("kerf-not-json", KERF_E_DATA, "does not start with '{'", "nvfp4"),
    DESCRIBED("kerf-cut", KERF_E_DATA, "does not end", "{\"version\":1"),
    DESCRIBED("kerf-version-2", KERF_E_NOSUP, "version of its kerf metadata is not 1", "{\"version\":2,\"tensors\":{}}"),
    DESCRIBED("kerf-version-string", KERF_E_NOSUP, "is not 1", "{\"version\":\"1\",\"tensors\":{}}"),
    DESCRIBED("kerf-version-missing", KERF_E_DATA, "not one version", "{\"tensors\":{}}"),
    DESCRIBED("kerf-tensors-missing", KERF_E_DATA, "not one version", "{\"version\":1}"),
    DESCRIBED("kerf-tensors-twice", KERF_E_DATA, "not one version", "{\"version\":1,\"tensors\":{},\"tensors\":{}}"),
    DESCRIBED("kerf-tensors-array", KERF_E_DATA, "not a JSON object", "{\"version\":1,\"tensors\":[]}"),
    DESCRIBED("kerf-unknown-key", KERF_E_DATA, "unknown key", "{\"version\":1,\"tensors\":{},\"more\":1}"),
    DESCRIBED("kerf-deep", KERF_E_DATA, "nested too deep", "{\"version\":1,\"tensors\":{\"w.weight\":{\"shape\":[[]]}}}"),
    DESCRIBED("kerf-entry-number", KERF_E_DATA, "not a JSON object", "{\"version\":1,\"tensors\":{\"w.weight\":1}}"),
    DESCRIBED("kerf-tensor-absent", KERF_E_DATA, "described, but not in this file", "{\"version\":1,\"tensors\":{\"x\":{}}}"),
    DESCRIBED("kerf-tensor-twice", KERF_E_DATA, "described twice", "{\"version\":1,\"tensors\":{\"w.weight\":{\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[2,4]},\"w.weight\":{}}}"),
    DESCRIBED("kerf-format-missing", KERF_E_DATA, "is not a string", QUANT("\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-format-unknown", KERF_E_NOSUP, "unknown format \"fp8-e9m9\"", QUANT("\"format\":\"fp8-e9m9\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-encoder-number", KERF_E_DATA, "is not a string", QUANT("\"format\":\"fp8-e4m3\",\"encoder\":1,\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-feedback-text", KERF_E_DATA, "feedback is not 16 hexadecimal digits", QUANT("\"format\":\"fp8-e4m3\",\"feedback\":\"0x12 with more\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-feedback-number", KERF_E_DATA, "feedback is not 16 hexadecimal digits", QUANT("\"format\":\"fp8-e4m3\",\"feedback\":1,\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-dtype-unknown", KERF_E_DATA, "unknown dtype", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"bf16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-shape-missing", KERF_E_DATA, "shape is not an array", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\"")),
    DESCRIBED("kerf-shape-negative", KERF_E_DATA, "not a plain unsigned integer", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[-2,-4]")),
    DESCRIBED("kerf-shape-of-strings", KERF_E_DATA, "shape[0] is not an integer", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[\"2\",4]")),
    DESCRIBED("kerf-shape-rank-9", KERF_E_DATA, "at most 8", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[1,1,1,1,1,1,1,1,8]")),
    DESCRIBED("kerf-shape-overflows", KERF_E_DATA, "tensor \"w.weight\"", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[4294967296,4294967296,2]")),
    DESCRIBED("kerf-shape-other", KERF_E_DATA, "plane \"w.weight\" is F8_E4M3 [2,4]", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[4,2]")),
    DESCRIBED("kerf-plane-missing", KERF_E_DATA, "its plane \"v.weight_scale\" is not in this file", "{\"version\":1,\"tensors\":{\"v.weight\":{\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[2,4]}}}"),
    DESCRIBED("kerf-plane-dtype", KERF_E_DATA, "plane \"w.weight\" is F8_E4M3", QUANT("\"format\":\"fp8-e5m2\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-plane-shape", KERF_E_DATA, "plane \"w.weight_scale\"", QUANT("\"format\":\"fp8-e4m3-row\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-plane-extra", KERF_E_DATA, "has no plane \"u_scale\"", "{\"version\":1,\"tensors\":{\"u\":{\"format\":\"fp32\",\"dtype\":\"F32\",\"shape\":[2]}}}"),
    DESCRIBED("layout-unknown", KERF_E_NOSUP, "it needs a newer kerf", "{\"version\":1,\"layout\":\"mlx\",\"tensors\":{}}"),
    DESCRIBED("layout-no-string", KERF_E_NOSUP, "it needs a newer kerf", "{\"version\":1,\"layout\":1,\"tensors\":{}}"),
    DESCRIBED("layout-twice", KERF_E_DATA, "unknown key", "{\"version\":1,\"layout\":\"modelopt\",\"layout\":\"kerf\",\"tensors\":{}}"),
    DESCRIBED("layout-format", KERF_E_DATA, "layout modelopt has no format int4-g128", LAYOUT("modelopt", "w.weight", "int4-g128", "[2,4]")),
    DESCRIBED("layout-plane-missing", KERF_E_DATA, "\"v.weight_scale\" is not in this file", LAYOUT("modelopt", "v.weight", "fp8-e4m3", "[2,4]")),
    DESCRIBED("layout-plane-shape", KERF_E_DATA, "plane \"w.weight_scale\" is F32 []", LAYOUT("modelopt", "w.weight", "fp8-e4m3-row", "[2,4]")),
    DESCRIBED("layout-codes-type", KERF_E_DATA, "plane \"w.weight\" is F8_E4M3", LAYOUT("modelopt", "w.weight", "nvfp4", "[2,16]")),
    DESCRIBED("layout-codes-name", KERF_E_DATA, "\"w.weight_packed\" is not in this file", LAYOUT("compressed-tensors", "w.weight", "mxfp4", "[2,32]")),
    DESCRIBED("layout-rank-3", KERF_E_DATA, "takes matrices only", LAYOUT("modelopt", "w.weight", "fp8-e4m3", "[1,2,4]")),
    DESCRIBED("layout-rank-0", KERF_E_DATA, "takes matrices only", LAYOUT("modelopt", "w.weight", "fp8-e4m3-row", "[]")),
    DESCRIBED("layout-empty", KERF_E_DATA, "takes matrices only", LAYOUT("modelopt", "w.weight", "fp8-e4m3", "[0,4]")),
    DESCRIBED("layout-multiple", KERF_E_DATA, "columns must be a multiple of 128", LAYOUT("deepseek", "w.weight", "fp8-e4m3-128x128", "[2,4]")),
    DESCRIBED("layout-large-shape", KERF_E_DATA, "quantized tensor \"w.weight\"", LAYOUT("compressed-tensors", "w.weight", "fp8-e4m3-row", "[9007199254740992,9007199254740992]")),
    DESCRIBED("layout-name", KERF_E_DATA, "layout modelopt takes names in .weight only", LAYOUT("modelopt", "u", "fp8-e4m3", "[2,4]")),
    DESCRIBED("layout-turned", KERF_E_DATA, "described, but not in this file", LAYOUT("gptq", "q.weight", "int4-g128", "[32,128]")),
    DESCRIBED("layout-not-there", KERF_E_DATA, "described, but not in this file", LAYOUT("compressed-tensors", "x", "int4-g128", "[2,128]")),
    DESCRIBED("kerf-plane-shared", KERF_E_DATA, "serves two tensors", "{\"version\":1,\"tensors\":{\"w.weight_scale\":{\"format\":\"fp32\",\"dtype\":\"F32\",\"shape\":[]},\"w.weight\":{\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[2,4]}}}"),
};
/* clang-format on */

#endif
