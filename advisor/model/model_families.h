/* model_families.h - in what families of models differ, as far as their operators are concerned. */
#ifndef KERF_MODEL_FAMILIES_H
#define KERF_MODEL_FAMILIES_H

typedef struct kf_model_family {
    const char *types;   /* model_type of files, a blank between two                */
    int qkv_bias;        /* where the file does not say (attention_bias)            */
    int qk_norm;         /* a norm of head_dim on queries and on keys               */
    int norms;           /* of size hidden per layer                                */
    int tied;            /* where the file does not say                             */
    const char *experts; /* keys of the number of experts; NULL: dense              */
    const char *width;   /* keys of their intermediate size                         */
    int expert_bias;     /* biases on experts, router and the output projection,
                            and one sink per head                                    */
    unsigned windowed;   /* of this many layers all but one have the window, where
                            the file lists no layer_types; 0: none, 1: all           */
    int latent;          /* MLA                                                      */
    int plain;           /* the MLP has no gate                                      */
    int estimated;       /* only the sizes are known: the rest is as in most models  */
} kf_model_family;

/* The row of a model_type; one that is not known has that of which only sizes count. */
const kf_model_family *kf_model_family_find(const char *type);

/* Other names of a key of config.json, a bar between two; "": it has none. */
const char *kf_model_synonyms(const char *key);

#endif
