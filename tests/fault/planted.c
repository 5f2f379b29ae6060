/* planted.c - a fault to be noticed by fault_sweep.py: the setters of the JSON library say that all
 * went well when there was no memory for what they set, as to a caller that does not look, and the
 * command's guard against this is gone. For LD_PRELOAD. */
#include <dlfcn.h>

#include <jansson.h>

int json_object_set_new(json_t *object, const char *key, json_t *value)
{
    static int (*next)(json_t *, const char *, json_t *);
    if (!next) next = (int (*)(json_t *, const char *, json_t *))dlsym(RTLD_NEXT, __func__);
    (void)next(object, key, value);
    return 0;
}

int json_array_append_new(json_t *array, json_t *value)
{
    static int (*next)(json_t *, json_t *);
    if (!next) next = (int (*)(json_t *, json_t *))dlsym(RTLD_NEXT, __func__);
    (void)next(array, value);
    return 0;
}

void json_set_alloc_funcs(json_malloc_t get, json_free_t give)
{
    (void)get;
    (void)give;
}
