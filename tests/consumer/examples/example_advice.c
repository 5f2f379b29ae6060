/* example_advice.c - the best format for every layer at so many bits per weight: advice MODEL BITS
 */
#include <kerf/kerf.h>
#include <stdio.h>
#include <stdlib.h>

static kerf_status run(char **argv, kerf_error *err)
{
    static const char *const name[] = {"nvfp4:4/6", "mxfp6-e2m3", "int8"};
    kerf_codec codec[3];
    kerf_checkpoint *model = NULL;
    kerf_advice *advice = NULL;
    char *recipe = NULL;
    size_t n = 0;
    kerf_status s = KERF_OK;
    for (int i = 0; i < 3 && !s; i++) s = kerf_codec_find(name[i], &codec[i], err);
    if (!s) s = kerf_checkpoint_open(argv[1], &model, err);
    const kerf_advise_request r = {.codec = codec, .codecs = 3, .budget = {.bits = atof(argv[2])}};
    if (!s) s = kerf_advise(model, &r, NULL, NULL, &advice, err);
    if (!s) s = kerf_advice_write(advice, KERF_ADVICE_RECIPE, &recipe, &n, err);
    if (!s) printf("%.3f bits per weight\n%s", kerf_advice_total(advice).bits, recipe);
    free(recipe);
    kerf_advice_close(advice);
    kerf_checkpoint_close(model);
    return s;
}

int main(int argc, char **argv)
{
    kerf_error err;
    if (argc == 3 && run(argv, &err) == KERF_OK) return 0;
    fprintf(stderr, "%s\n", argc == 3 ? err.text : "usage: advice MODEL BITS");
    return 1;
}
