/* selftest_digests.c - the self test of a library that was built without anything else: one line per
 * codec, its name and its digest. determinism.sh compares these lines between compilers.
 *
 * Exit codes: 0, every codec passes; 1, one does not (a line per codec on stderr) or the call failed. */
#include <kerf/selftest.h>

#include <stdio.h>

int main(void)
{
    kerf_selftest_result *r = NULL;
    kerf_error err = {0};
    if (kerf_selftest(NULL, NULL, &r, &err) != KERF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < r->rows; i++) {
        const kerf_selftest_row *row = &r->row[i];
        char name[64];
        kerf_codec_name(row->codec, name, sizeof name);
        printf("%s %016llx\n", name, (unsigned long long)row->digest);
        if (row->problems > 0) fprintf(stderr, "%s: %s\n", name, row->problem[0]);
    }
    int failed = r->failed > 0;
    kerf_selftest_free(r);
    return failed;
}
