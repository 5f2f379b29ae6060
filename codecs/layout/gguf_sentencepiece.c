/* gguf_sentencepiece.c - reads the protocol buffer that SentencePiece writes: pieces with their
 * scores and types, and of the two descriptions of its training what a reader needs.
 *
 * A message is a list of fields: a number that has the field and its kind, then a number, four or
 * eight bytes, or a length and so many bytes. Fields that are not asked for are passed over.
 *
 * Source: sentencepiece_model.proto of SentencePiece. */
#include "layout/gguf_sentencepiece.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { VARINT = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5 }; /* kinds of fields */

/* Fields: of the file; of a piece; of the trainer; of the normalizer. */
enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { MODEL_TYPE = 3, BOS_ID = 41 };
enum { CHARSMAP = 2, DUMMY_PREFIX = 3, FEWER_SPACES = 4 };

enum { MODEL_BPE = 2, MOST_TYPES = 6 };

typedef struct message {
    const char *name;
    const unsigned char *file, *at, *end;
    kerf_error *err;
} message;

typedef struct field {
    unsigned number, kind;
    uint64_t value;             /* VARINT; the bits of the two fixed kinds */
    const unsigned char *bytes; /* BYTES: `value` of them                  */
} field;

static kerf_status fail(const message *m, const unsigned char *at, const char *why)
{
    return kf_fail(m->err, KERF_E_DATA, (uint64_t)(at - m->file), "%.200s: %s", m->name, why);
}

static kerf_status take_varint(message *m, uint64_t *out)
{
    const unsigned char *begin = m->at;
    *out = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = *m->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return KERF_OK;
    }
    return fail(m, begin, "a number without an end");
}

static kerf_status take_fixed(message *m, unsigned bytes, uint64_t *out)
{
    if ((size_t)(m->end - m->at) < bytes) return fail(m, m->at, "it ends inside of a number");
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) *out |= (uint64_t)*m->at++ << 8 * i;
    return KERF_OK;
}

static kerf_status take_field(message *m, field *f)
{
    const unsigned char *begin = m->at;
    uint64_t key;
    KF_TRY(take_varint(m, &key));
    *f = (field){.number = (unsigned)(key >> 3), .kind = (unsigned)(key & 7)};
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) return fail(m, begin, "no field has this number");
    if (f->kind == VARINT) return take_varint(m, &f->value);
    if (f->kind == EIGHT_BYTES) return take_fixed(m, 8, &f->value);
    if (f->kind == FOUR_BYTES) return take_fixed(m, 4, &f->value);
    if (f->kind != BYTES) return fail(m, begin, "no field is of this kind");
    KF_TRY(take_varint(m, &f->value));
    if (f->value > (uint64_t)(m->end - m->at))
        return fail(m, begin, "a field ends behind the file");
    f->bytes = m->at;
    m->at += f->value;
    return KERF_OK;
}

static message inside(const message *m, const field *f)
{
    message inner = *m;
    inner.at = f->bytes;
    inner.end = f->bytes + f->value;
    return inner;
}

static int is_field(const field *f, unsigned number, unsigned kind)
{
    return f->number == number && f->kind == kind;
}

/* --- what is in it -------------------------------------------------------------------------------
 */

/* text: room for its bytes and a zero; *used: how many. */
static kerf_status take_piece(message m, kf_piece *p, char *text, size_t *used)
{
    field f;
    int has_text = 0;
    *p = (kf_piece){.text = text, .type = 1};
    text[0] = 0;
    *used = 1;
    while (m.at < m.end) {
        KF_TRY(take_field(&m, &f));
        if (is_field(&f, PIECE_TEXT, BYTES)) {
            if (has_text++) return fail(&m, f.bytes, "a token has two texts");
            if (memchr(f.bytes, 0, (size_t)f.value))
                return fail(&m, f.bytes, "a zero in the text of a token");
            memcpy(text, f.bytes, (size_t)f.value);
            text[f.value] = 0;
            *used = (size_t)f.value + 1;
        } else if (is_field(&f, PIECE_SCORE, FOUR_BYTES)) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&p->score, &bits, sizeof bits);
            if ((bits & 0x7f800000u) == 0x7f800000u)
                return fail(&m, m.at - 4, "a score that is NaN or infinite");
        } else if (is_field(&f, PIECE_TYPE, VARINT)) {
            if (f.value < 1 || f.value > MOST_TYPES)
                return fail(&m, m.at - 1, "no token is of this type");
            p->type = (int)f.value;
        }
    }
    return KERF_OK;
}

static kerf_status take_trainer(message m, kf_pieces *p)
{
    field f;
    while (m.at < m.end) {
        KF_TRY(take_field(&m, &f));
        if (f.kind != VARINT) continue;
        if (f.number == MODEL_TYPE) p->is_bpe = f.value == MODEL_BPE;
        if (f.number == BOS_ID) p->has_bos = f.value <= INT32_MAX; /* -1 has all bits */
    }
    return KERF_OK;
}

static kerf_status take_normalizer(message m, kf_pieces *p)
{
    field f;
    int has_map = 0, fewer_spaces = 1;
    while (m.at < m.end) {
        KF_TRY(take_field(&m, &f));
        if (is_field(&f, CHARSMAP, BYTES)) has_map = f.value > 0;
        if (is_field(&f, DUMMY_PREFIX, VARINT)) p->prefix = f.value != 0;
        if (is_field(&f, FEWER_SPACES, VARINT)) fewer_spaces = f.value != 0;
    }
    p->is_changed = has_map || fewer_spaces;
    return KERF_OK;
}

static kerf_status count_pieces(message m, size_t *count)
{
    field f;
    *count = 0;
    while (m.at < m.end) {
        KF_TRY(take_field(&m, &f));
        *count += is_field(&f, PIECES, BYTES) ? 1 : 0;
    }
    return *count ? KERF_OK : fail(&m, m.file, "no tokens of SentencePiece are in it");
}

/* What protocol buffers leave out has these values. */
static const kf_pieces defaults = {.is_changed = 1, .prefix = 1, .has_bos = 1};

kerf_status kf_pieces_parse(const char *name, const unsigned char *file, size_t n, kf_pieces *out,
                            kerf_error *err)
{
    message m = {name, file, file, file + n, err};
    kf_pieces p = defaults;
    size_t count, used = 0, bytes;
    *out = (kf_pieces){.piece = NULL};
    KF_TRY(count_pieces(m, &count));
    KF_TRY(kf_allocate(&p.texts, n, 1, err)); /* a piece is longer in the file than its text */
    kerf_status s = kf_allocate(&p.piece, count, sizeof *p.piece, err);
    while (s == KERF_OK && m.at < m.end) {
        field f;
        s = take_field(&m, &f);
        if (s != KERF_OK || f.kind != BYTES) continue;
        if (f.number == TRAINER) s = take_trainer(inside(&m, &f), &p);
        if (f.number == NORMALIZER) s = take_normalizer(inside(&m, &f), &p);
        if (f.number != PIECES) continue;
        s = take_piece(inside(&m, &f), &p.piece[p.count++], p.texts + used, &bytes);
        used += bytes;
    }
    if (s == KERF_OK)
        *out = p;
    else
        kf_pieces_close(&p);
    return s;
}

void kf_pieces_close(kf_pieces *p)
{
    free(p->piece);
    free(p->texts);
    *p = (kf_pieces){.piece = NULL};
}
