/* example_product.c - y = W x straight from the planes of a quantized W, planned once. */
#include <kerf/kerf.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLS = 256 };

static kerf_status run(kerf_error *err)
{
    static float w[ROWS * COLS], x[COLS], y[ROWS];
    for (int i = 0; i < ROWS * COLS; i++) w[i] = i / COLS == i % COLS; /* ones on the diagonal */
    for (int i = 0; i < COLS; i++) x[i] = (float)i;

    const kerf_format *format = kerf_format_find("int8");
    const kerf_gemv_shape shape = {format, ROWS, COLS, .columns = 1, .x = KERF_F32, .y = KERF_F32};
    kerf_gemv_args args = {.x = {x, sizeof x}, .y = {y, sizeof y}};
    kerf_span planes[KERF_PLANES];
    kerf_geometry g;
    kerf_gemv *plan = NULL;
    kerf_status s = kerf_geometry_init(&g, format, &(kerf_shape){2, {ROWS, COLS}}, err);
    if (s) return s;
    for (int p = 0; p < KERF_PLANES; p++) {
        planes[p] = (kerf_span){malloc(g.plane[p].bytes), g.plane[p].bytes};
        args.weights[p] = (kerf_cspan){planes[p].p, planes[p].n};
    }
    s = kerf_encode_matrix(&g, NULL, (kerf_cspan){w, sizeof w}, KERF_F32, planes, NULL, NULL, err);
    if (!s) s = kerf_gemv_plan_create(&plan, &shape, NULL, err);
    if (!s) args.workspace.n = kerf_gemv_workspace(plan);
    args.workspace.p = malloc(args.workspace.n);
    if (!s) s = kerf_gemv_run(plan, &args, NULL, err); /* as often as needed */
    if (!s) printf("y[33] = %.3f by %s\n", y[33], kerf_gemv_backend(plan));
    kerf_gemv_plan_free(plan);
    free(args.workspace.p);
    for (int p = 0; p < KERF_PLANES; p++) free(planes[p].p);
    return s;
}

int main(void)
{
    kerf_error err;
    if (run(&err) == KERF_OK) return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}
