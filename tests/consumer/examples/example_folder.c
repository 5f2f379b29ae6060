/* example_folder.c - quantizes a checkpoint, then checks it: folder MODEL OUT */
#include <kerf/kerf.h>
#include <stdio.h>

static kerf_status run(char **argv, kerf_error *err)
{
    kerf_codec codec;
    kerf_checkpoint *model = NULL, *written = NULL;
    kerf_plan *plan = NULL;
    kerf_result result;
    kerf_verification *v = NULL;
    kerf_status s = kerf_codec_find("nvfp4:4/6", &codec, err);
    if (!s) s = kerf_checkpoint_open(argv[1], &model, err);
    if (!s)
        s = kerf_plan_make(model, NULL, NULL, 0, codec, &(kerf_output){.path = argv[2]}, &plan,
                           err);
    if (!s) s = kerf_quantize(plan, NULL, NULL, &result, err);
    if (!s) s = kerf_checkpoint_open(argv[2], &written, err);
    if (!s) s = kerf_verify(model, written, NULL, NULL, NULL, &v, err);
    if (!s) printf("%zu tensors, t2 %.3e\n", result.changed, kerf_score_t2(&v->total));
    kerf_verification_close(v);
    kerf_checkpoint_close(written);
    kerf_plan_free(plan);
    kerf_checkpoint_close(model);
    return s;
}

int main(int argc, char **argv)
{
    kerf_error err;
    if (argc == 3 && run(argv, &err) == KERF_OK) return 0;
    fprintf(stderr, "%s\n", argc == 3 ? err.text : "usage: folder MODEL OUT");
    return 1;
}
