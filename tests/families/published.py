"""Names, shapes and configurations of published models, at tiny sizes, and what each tensor is: one entry
for each family. Written down from the modeling files of transformers and diffusers (module names), and
from config.json of releases (keys).

A tensor is "NAME SHAPE ROLE": the shape in letters of SIZES, a product with a star; the role as
`kerf inspect` says it, with its piece behind a dot."""

SIZES = {"H": 128, "I": 256, "V": 640, "E": 4, "M": 64, "Q": 128, "K": 64, "S": 16, "C": 4, "L": 32, "W": 96, "X": 192}
BASE = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 640, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
MOE = {"num_experts": 4, "moe_intermediate_size": 64, "num_experts_per_tok": 2}


def each(prefix, text):
    """The lines of a text with a prefix before each name."""
    return [f"{prefix}{line.strip()}" for line in text.strip().splitlines()]


def ends(p="model.", head="lm_head.weight", embed="embed_tokens.weight", norm="norm.weight"):
    return [f"{p}{embed} V,H embedding", f"{p}{norm} H norm"] + ([f"{head} V,H output_head"] if head else [])


def attention(p, q="q_proj", k="k_proj", v="v_proj", o="o_proj"):
    return each(p, f"""{q}.weight Q,H attention.q\n{k}.weight K,H attention.k\n{v}.weight K,H attention.v
                       {o}.weight H,Q attention.o""")


def gated(p, gate="gate_proj", up="up_proj", down="down_proj", role="MLP", inner="I"):
    return each(p, f"""{gate}.weight {inner},H {role}.gate\n{up}.weight {inner},H {role}.up
                       {down}.weight H,{inner} {role}.down""")


def plain(p, up, down, role="MLP"):
    return each(p, f"{up}.weight I,H {role}.up\n{down}.weight H,I {role}.down")


def experts(p, gate="gate_proj", up="up_proj", down="down_proj", n=2):
    return [t for i in range(n) for t in gated(f"{p}experts.{i}.", gate, up, down, "expert", "M")]


def norms(p, *names):
    return [f"{p}{n}.weight H norm" for n in names]


def llama(p="model.layers.0.", mlp="mlp."):
    return attention(p + "self_attn.") + gated(p + mlp) + norms(p, "input_layernorm", "post_attention_layernorm")


def vit(p, role="vision"):
    return each(p, f"""self_attn.q_proj.weight W,W {role}.q\nself_attn.k_proj.weight W,W {role}.k
                       self_attn.v_proj.weight W,W {role}.v\nmlp.fc1.weight X,W {role}.up\nmlp.fc2.weight W,X {role}.down
                       layer_norm1.weight W {role}""")


MAMBA = """in_proj.weight I,H state_space.in\nx_proj.weight L,I state_space.parameter\ndt_proj.weight I,S state_space.parameter
conv1d.weight I,1,C convolution\nA_log I,S state_space.parameter\nD I state_space.parameter\nout_proj.weight H,I state_space.out"""
MAMBA2 = """in_proj.weight I,H state_space.in\nconv1d.weight I,1,C convolution\nA_log C state_space.parameter\nD C state_space.parameter
dt_bias C state_space.parameter\nnorm.weight I norm\nout_proj.weight H,I state_space.out"""
LATENT = """self_attn.q_a_proj.weight M,H attention.q_a\nself_attn.q_b_proj.weight Q,M attention.q_b
self_attn.kv_a_proj_with_mqa.weight M,H attention.kv_a\nself_attn.kv_b_proj.weight I,M attention.kv_b
self_attn.q_a_layernorm.weight M norm\nself_attn.o_proj.weight H,Q attention.o"""
DELTA = """linear_attn.in_proj_qkvz.weight I,H state_space.in\nlinear_attn.in_proj_ba.weight S,H state_space.parameter
linear_attn.conv1d.weight I,1,C convolution\nlinear_attn.A_log C state_space.parameter\nlinear_attn.norm.weight L norm
linear_attn.out_proj.weight H,I state_space.out"""
BERT = """attention.self.query.weight H,H attention.q\nattention.self.key.weight H,H attention.k\nattention.self.value.weight H,H attention.v
attention.self.query.bias H bias\nattention.output.dense.weight H,H attention.o\nattention.output.LayerNorm.weight H norm
intermediate.dense.weight I,H MLP.up\noutput.dense.weight H,I MLP.down\noutput.LayerNorm.weight H norm"""
L0 = "model.layers.0."
A0 = L0 + "self_attn."
SHARED = lambda p: gated(p, role="shared_expert", inner="M")

FAMILIES = {}


def family(name, config, *tensors):
    FAMILIES[name] = ({**BASE, "model_type": name, **config}, [t for group in tensors for t in group])


for one in ("llama", "mistral", "qwen2", "gemma", "olmo", "granite", "helium", "seed_oss"):
    family(one, {}, ends(), llama())
family("qwen3", {}, ends(), llama(), [A0 + "q_norm.weight L norm", A0 + "k_norm.weight L norm"])
family("gemma2", {}, ends(head=None), llama(), norms(L0, "pre_feedforward_layernorm", "post_feedforward_layernorm"))
family("gemma3", {"text_config": {**BASE, "model_type": "gemma3_text"}, "vision_config": {"hidden_size": 96}},
       ends("language_model.model.", None), llama("language_model.model.layers.0."),
       vit("vision_tower.vision_model.encoder.layers.0."),
       ["multi_modal_projector.mm_input_projection_weight W,H projector", "multi_modal_projector.mm_soft_emb_norm.weight W projector"])
family("phi", {}, ends(norm="final_layernorm.weight"), attention(A0, o="dense"), plain(L0 + "mlp.", "fc1", "fc2"))
family("phi3", {"intermediate_size": 192}, ends(), [A0 + "qkv_proj.weight I,H attention.qkv", A0 + "o_proj.weight H,Q attention.o",
       L0 + "mlp.gate_up_proj.weight X*2,H MLP.gate_up", L0 + "mlp.down_proj.weight H,X MLP.down"])
GPT2 = lambda p: each(p + "h.0.", """ln_1.weight H norm\nattn.c_attn.weight H,H*3 attention.qkv\nattn.c_attn.bias H*3 bias
    attn.c_proj.weight H,H attention.o\nmlp.c_fc.weight H,X MLP.up\nmlp.c_proj.weight X,H MLP.down\nattn.bias 1,1,L,L bias""")
family("gpt2", {"n_embd": 128, "hidden_size": None, "architectures": ["GPT2LMHeadModel"]},
       ["wte.weight V,H embedding", "wpe.weight X,H embedding", "ln_f.weight H norm"], GPT2(""))
family("gpt_bigcode", {"n_embd": 128}, ["transformer.wte.weight V,H embedding", "transformer.wpe.weight X,H embedding"],
       each("transformer.h.0.", """attn.c_attn.weight X,H attention.qkv\nattn.c_proj.weight H,H attention.o
            mlp.c_fc.weight I,H MLP.up\nmlp.c_proj.weight H,I MLP.down"""))
family("gpt_neox", {}, ["gpt_neox.embed_in.weight V,H embedding", "embed_out.weight V,H output_head"],
       each("gpt_neox.layers.0.", """attention.query_key_value.weight H*3,H attention.qkv\nattention.dense.weight H,H attention.o
            attention.rotary_emb.inv_freq S attention.parameter\nmlp.dense_h_to_4h.weight I,H MLP.up\nmlp.dense_4h_to_h.weight H,I MLP.down"""))
family("gptj", {"n_embd": 128}, ["transformer.wte.weight V,H embedding", "lm_head.weight V,H output_head"],
       attention("transformer.h.0.attn.", o="out_proj"), plain("transformer.h.0.mlp.", "fc_in", "fc_out"))
family("opt", {}, ["model.decoder.embed_tokens.weight V,H embedding", "model.decoder.embed_positions.weight X,H embedding"],
       attention("model.decoder.layers.0.self_attn.", o="out_proj"), plain("model.decoder.layers.0.", "fc1", "fc2"))
family("bloom", {}, ["transformer.word_embeddings.weight V,H embedding", "transformer.word_embeddings_layernorm.weight H norm"],
       each("transformer.h.0.", """self_attention.query_key_value.weight H*3,H attention.qkv\nself_attention.dense.weight H,H attention.o
            mlp.dense_h_to_4h.weight I,H MLP.up\nmlp.dense_4h_to_h.weight H,I MLP.down"""))
family("falcon", {}, ["transformer.word_embeddings.weight V,H embedding", "lm_head.weight V,H output_head", "transformer.ln_f.weight H norm"],
       each("transformer.h.0.", """self_attention.query_key_value.weight X,H attention.qkv\nself_attention.dense.weight H,H attention.o
            mlp.dense_h_to_4h.weight I,H MLP.up\nmlp.dense_4h_to_h.weight H,I MLP.down\nln_attn.weight H norm"""))
family("mpt", {"d_model": 128}, ["transformer.wte.weight V,H embedding", "transformer.norm_f.weight H norm"],
       each("transformer.blocks.0.", """attn.Wqkv.weight H*3,H attention.qkv\nattn.out_proj.weight H,H attention.o
            ffn.up_proj.weight I,H MLP.up\nffn.down_proj.weight H,I MLP.down\nnorm_1.weight H norm"""))
family("starcoder2", {}, ends(), attention(A0), plain(L0 + "mlp.", "c_fc", "c_proj"))
family("baichuan", {}, ends(), [A0 + "W_pack.weight H*3,H attention.qkv", A0 + "o_proj.weight H,H attention.o"], gated(L0 + "mlp."))
family("internlm2", {}, ["model.tok_embeddings.weight V,H embedding", "output.weight V,H output_head"],
       [L0 + "attention.wqkv.weight I,H attention.qkv", L0 + "attention.wo.weight H,Q attention.o"],
       gated(L0 + "feed_forward.", "w1", "w3", "w2"), norms(L0, "attention_norm", "ffn_norm"))
family("chatglm", {"padded_vocab_size": 640, "ffn_hidden_size": 192},
       ["transformer.embedding.word_embeddings.weight V,H embedding", "transformer.output_layer.weight V,H output_head",
        "transformer.rotary_pos_emb.inv_freq S attention.parameter", "transformer.encoder.final_layernorm.weight H norm"],
       each("transformer.encoder.layers.0.", """self_attention.query_key_value.weight X,H attention.qkv\nself_attention.dense.weight H,H attention.o
            mlp.dense_h_to_4h.weight X*2,H MLP.gate_up\nmlp.dense_4h_to_h.weight H,X MLP.down"""))
family("glm4", {}, ends(), attention(A0), [L0 + "mlp.gate_up_proj.weight X*2,H MLP.gate_up", L0 + "mlp.down_proj.weight H,X MLP.down"],
       norms(L0, "post_self_attn_layernorm", "post_mlp_layernorm"))
family("cohere2", {}, ends(head=None), llama())
family("exaone", {}, ["transformer.wte.weight V,H embedding", "lm_head.weight V,H output_head"],
       attention("transformer.h.0.attn.attention.", o="out_proj"), gated("transformer.h.0.mlp.", "c_fc_0", "c_fc_1", "c_proj"))
family("nemotron", {}, ends(), attention(A0), plain(L0 + "mlp.", "up_proj", "down_proj"))
# mixtures of experts
family("mixtral", {"num_local_experts": 4}, ends(), attention(A0),
       [L0 + "block_sparse_moe.gate.weight E,H router"], experts(L0 + "block_sparse_moe.", "w1", "w3", "w2"))
for one in ("qwen3_moe", "olmoe"):
    family(one, MOE, ends(), attention(A0), [L0 + "mlp.gate.weight E,H router"], experts(L0 + "mlp."))
family("qwen2_moe", {**MOE, "shared_expert_intermediate_size": 64}, ends(), attention(A0),
       [L0 + "mlp.gate.weight E,H router", L0 + "mlp.shared_expert_gate.weight 1,H router"], experts(L0 + "mlp."), SHARED(L0 + "mlp.shared_expert."))
family("qwen3_next", MOE, ends(), each(L0, DELTA), attention("model.layers.1.self_attn."), [L0 + "mlp.gate.weight E,H router"],
       experts(L0 + "mlp."), SHARED(L0 + "mlp.shared_expert."), ["mtp.fc.weight H,I MTP", "mtp.layers.0.mlp.gate.weight E,H MTP"])
G = "model.language_model.layers.0."
family("qwen3_5_moe", {"text_config": {**BASE, **MOE, "model_type": "qwen3_5_moe_text"}, "hidden_size": None},
       ends("model.language_model."), attention(G + "self_attn."), [G + "mlp.gate.weight E,H router",
       G + "mlp.experts.gate_up_proj E,M*2,H expert.gate_up", G + "mlp.experts.down_proj E,H,M expert.down",
       "model.language_model.layers.1.linear_attn.in_proj_qkv.weight I,H state_space.in",
       "model.language_model.layers.1.linear_attn.in_proj_z.weight H,H state_space.z",
       "model.language_model.layers.1.linear_attn.in_proj_a.weight C,H state_space.parameter",
       "model.visual.blocks.0.attn.qkv.weight W*3,W vision.qkv", "model.visual.merger.linear_fc1.weight W,W projector.up"])
family("qwen3_vl_moe", {"text_config": {**BASE, **MOE, "model_type": "qwen3_vl_moe_text"}, "hidden_size": None},
       ends("model.language_model."), attention(G + "self_attn."), [G + "mlp.gate.weight E,H router",
       G + "mlp.experts.gate_up_proj E,H,M*2 expert.gate_up in_out", G + "mlp.experts.down_proj E,M,H expert.down in_out",
       "model.visual.blocks.0.attn.proj.weight W,W vision.o", "model.visual.deepstack_merger_list.0.linear_fc1.weight W,W projector.up"])
family("deepseek_v2", {"n_routed_experts": 4, "moe_intermediate_size": 64}, ends(), each(L0, LATENT), gated(L0 + "mlp."),
       ["model.layers.1.mlp.gate.weight E,H router"], experts("model.layers.1.mlp."), SHARED("model.layers.1.mlp.shared_experts."))
family("deepseek_v3", {"n_routed_experts": 4, "moe_intermediate_size": 64, "num_nextn_predict_layers": 1}, ends(), each(L0, LATENT),
       ["model.layers.1.mlp.gate.weight E,H router", "model.layers.1.mlp.gate.e_score_correction_bias E router"], experts("model.layers.1.mlp."),
       SHARED("model.layers.1.mlp.shared_experts."), ["model.layers.2.eh_proj.weight H,I MTP", "model.layers.2.shared_head.head.weight V,H MTP",
       "model.layers.2.self_attn.q_a_proj.weight M,H MTP.q_a", "model.layers.2.mlp.experts.0.up_proj.weight M,H MTP.up"])
family("deepseek_v4", {"n_routed_experts": 4, "moe_intermediate_size": 64}, ["embed.weight V,H embedding", "head.weight V,H output_head", "norm.weight H norm"],
       each("layers.0.", """attn.wq_a.weight M,H attention.q_a\nattn.wq_b.weight Q,M attention.q_b\nattn.wkv.weight K,H attention.kv_a
            attn.wo_a.weight H,Q attention.o\nattn.wo_b.weight H,H attention.o\nattn.attn_sink C attention.parameter
            attn.indexer.wq_b.weight M,M attention.parameter\nattn.compressor.wkv.weight M,H attention.parameter
            ffn.gate.weight E,H router\nffn.gate.bias E router\nhc_attn_fn C,I attention.parameter\nattn_norm.weight H norm"""),
       experts("layers.0.ffn.", "w1", "w3", "w2"), SHARED("layers.0.ffn.shared_experts.")[:0] +
       gated("layers.0.ffn.shared_experts.", "w1", "w3", "w2", "shared_expert", "M"), ["mtp.0.e_proj.weight H,H MTP"])
family("glm4_moe", {"n_routed_experts": 4, "moe_intermediate_size": 64, "num_nextn_predict_layers": 1}, ends(), attention(A0),
       ["model.layers.1.mlp.gate.weight E,H router"], experts("model.layers.1.mlp."), ["model.layers.2.enorm.weight H MTP",
        "model.layers.2.self_attn.q_proj.weight Q,H MTP.q"])
T = "language_model.model.layers.0."
family("llama4", {"text_config": {**BASE, "model_type": "llama4_text", "num_local_experts": 4, "intermediate_size": 64}, "hidden_size": None},
       ends("language_model.model.", "language_model.lm_head.weight"), attention(T + "self_attn."),
       [T + "feed_forward.router.weight E,H router", T + "feed_forward.experts.gate_up_proj E,H,M*2 expert.gate_up in_out",
        T + "feed_forward.experts.down_proj E,M,H expert.down in_out"], SHARED(T + "feed_forward.shared_expert."),
       ["vision_model.model.layers.0.self_attn.q_proj.weight W,W vision.q", "multi_modal_projector.linear_1.weight H,W projector"])
family("gpt_oss", {"num_local_experts": 4, "intermediate_size": 64}, ends(), attention(A0),
       each(L0, """self_attn.sinks C attention.parameter\nmlp.router.weight E,H router\nmlp.router.bias E router
            mlp.experts.gate_up_proj E,H,M*2 expert.gate_up in_out\nmlp.experts.gate_up_proj_bias E,M*2 bias
            mlp.experts.down_proj E,M,H expert.down in_out\nmlp.experts.down_proj_bias E,H bias"""))
family("dbrx", {"d_model": 128, "ffn_config": {"moe_num_experts": 4, "ffn_hidden_size": 64}}, ["transformer.wte.weight V,H embedding"],
       each("transformer.blocks.0.", """norm_attn_norm.attn.Wqkv.weight I,H attention.qkv\nnorm_attn_norm.attn.out_proj.weight H,H attention.o
            norm_attn_norm.norm_1.weight H norm\nffn.router.layer.weight E,H router\nffn.experts.mlp.w1 E*M,H expert.gate
            ffn.experts.mlp.v1 E*M,H expert.up\nffn.experts.mlp.w2 E*M,H expert.down in_out"""))
family("phimoe", {"num_local_experts": 4}, ends(), attention(A0), [L0 + "block_sparse_moe.gate.weight E,H router"],
       experts(L0 + "block_sparse_moe.", "w1", "w3", "w2"))
family("granitemoe", {"num_local_experts": 4}, ends(), attention(A0), each(L0 + "block_sparse_moe.",
       "router.layer.weight E,H router\ninput_linear.weight E,M*2,H expert.gate_up\noutput_linear.weight E,H,M expert.down"))
family("minimax_m2", {"num_local_experts": 4, "intermediate_size": 64}, ends(), attention(A0), [L0 + "block_sparse_moe.gate.weight E,H router",
       L0 + "block_sparse_moe.e_score_correction_bias E router"], experts(L0 + "block_sparse_moe.", "w1", "w3", "w2"))
family("ernie4_5_moe", {"moe_num_experts": 4, "moe_intermediate_size": 64}, ends(), attention(A0), [L0 + "mlp.gate.weight E,H router",
       L0 + "mlp.moe_statics.e_score_correction_bias 1,E router"], experts(L0 + "mlp."), SHARED(L0 + "mlp.shared_experts."))
family("hunyuan_v1_moe", {"num_experts": 4}, ends(), attention(A0), [L0 + "mlp.gate.wg.weight E,H router"], experts(L0 + "mlp."),
       SHARED(L0 + "mlp.shared_mlp."))
# state spaces and hybrids
family("mamba", {}, ["backbone.embeddings.weight V,H embedding", "backbone.norm_f.weight H norm"], each("backbone.layers.0.mixer.", MAMBA))
family("mamba2", {}, ["backbone.embeddings.weight V,H embedding"], each("backbone.layers.0.mixer.", MAMBA2))
family("jamba", {"num_experts": 4}, ends(norm="final_layernorm.weight"), each(L0 + "mamba.", MAMBA), attention("model.layers.1.self_attn."),
       ["model.layers.1.feed_forward.router.weight E,H router"], experts("model.layers.1.feed_forward."), gated(L0 + "feed_forward."))
family("bamba", {}, ends(norm="final_layernorm.weight"), each(L0 + "mamba.", MAMBA2), gated(L0 + "feed_forward."))
N = "backbone.layers."
family("nemotron_h", {"n_routed_experts": 4, "moe_intermediate_size": 64}, ["backbone.embeddings.weight V,H embedding", "lm_head.weight V,H output_head",
       N + "0.norm.weight H norm"], each(N + "0.mixer.", MAMBA2), attention(N + "1.mixer."), plain(N + "2.mixer.", "up_proj", "down_proj"),
       [N + "3.mixer.gate.weight E,H router", N + "3.mixer.gate.e_score_correction_bias E router", N + "3.mixer.experts.0.up_proj.weight M,H expert.up",
        N + "3.mixer.experts.0.down_proj.weight H,M expert.down", N + "3.mixer.shared_experts.up_proj.weight M,H shared_expert.up"])
family("falcon_h1", {}, ends(), each(L0 + "mamba.", MAMBA2), attention(A0), gated(L0 + "feed_forward."))
family("recurrent_gemma", {}, ends(head=None), each(L0, """temporal_block.linear_x.weight H,H state_space.in\ntemporal_block.linear_y.weight H,H state_space.in
       temporal_block.linear_out.weight H,H state_space.out\ntemporal_block.conv_1d.weight H,1,C convolution\ntemporal_block.rg_lru.recurrent_param H state_space.parameter
       temporal_block.rg_lru.input_gate_weight C,L,L state_space.parameter\nmlp_block.gate_proj.weight I,H MLP.gate\nmlp_block.up_proj.weight I,H MLP.up"""))
family("lfm2", {}, ends(norm="embedding_norm.weight"), each(L0, """conv.in_proj.weight X*2,H state_space.in\nconv.conv.weight H,1,C convolution
       conv.out_proj.weight H,H state_space.out\nfeed_forward.w1.weight I,H MLP.gate\nfeed_forward.w3.weight I,H MLP.up\nfeed_forward.w2.weight H,I MLP.down
       operator_norm.weight H norm"""))
family("rwkv", {}, ["rwkv.embeddings.weight V,H embedding", "head.weight V,H output_head"], each("rwkv.blocks.0.",
       """attention.time_decay H state_space.parameter\nattention.key.weight H,H state_space.k\nattention.receptance.weight H,H state_space.q
       attention.output.weight H,H state_space.o\nfeed_forward.key.weight I,H MLP.up\nfeed_forward.value.weight H,I MLP.down\nln1.weight H norm"""))
# that see and hear
family("llava", {"text_config": {**BASE, "model_type": "llama"}, "vision_config": {"hidden_size": 96}}, ends("language_model.model.", "language_model.lm_head.weight"),
       llama(T), vit("vision_tower.vision_model.encoder.layers.0."), ["multi_modal_projector.linear_1.weight H,W projector", "model.image_newline H projector"])
family("mllama", {"text_config": {**BASE, "model_type": "mllama_text_model"}}, ends("language_model.model.", "language_model.lm_head.weight"), llama(T),
       attention("language_model.model.layers.1.cross_attn."), vit("vision_model.transformer.layers.0."), vit("vision_model.global_transformer.layers.0."))
family("qwen2_5_omni", {"thinker_config": {"text_config": {**BASE, "model_type": "qwen2_5_omni_text"}}}, ends("thinker.model.", "thinker.lm_head.weight"),
       llama("thinker.model.layers.0."), vit("thinker.audio_tower.layers.0.", "audio")[:3], ["thinker.visual.blocks.0.attn.proj.weight W,W vision.o",
       "thinker.visual.merger.mlp.0.weight W,W projector.up", "talker.model.layers.0.self_attn.q_proj.weight W,W audio.q", "token2wav.code2wav_dit_model.proj.weight W,W audio.parameter"])
family("internvl_chat", {"llm_config": {**BASE, "model_type": "qwen2"}, "hidden_size": None}, ends("language_model.model.", "language_model.lm_head.weight"), llama(T),
       ["vision_model.encoder.layers.0.attn.qkv.weight W*3,W vision.qkv", "vision_model.encoder.layers.0.mlp.fc1.weight X,W vision.up", "mlp1.1.weight H,W projector"])
family("idefics3", {"text_config": {**BASE, "model_type": "llama"}}, ends("model.text_model."), llama("model.text_model.layers.0."),
       vit("model.vision_model.encoder.layers.0."), ["model.connector.modality_projection.proj.weight H,W projector.parameter"])
family("whisper", {"d_model": 128, "hidden_size": None}, ["model.encoder.conv1.weight H,S,3 convolution", "model.encoder.embed_positions.weight X,H embedding",
       "model.decoder.embed_tokens.weight V,H embedding", "proj_out.weight V,H output_head"], attention("model.encoder.layers.0.self_attn.", o="out_proj"),
       attention("model.decoder.layers.0.encoder_attn.", o="out_proj"), plain("model.decoder.layers.0.", "fc1", "fc2"))
family("clip", {}, attention("text_model.encoder.layers.0.self_attn.", o="out_proj"), plain("vision_model.encoder.layers.0.mlp.", "fc1", "fc2"),
       ["text_model.embeddings.token_embedding.weight V,H embedding", "vision_model.embeddings.patch_embedding.weight H,3,C,C embedding",
        "visual_projection.weight H,H output_head", "logit_scale 1 scale"])
# encoders
family("bert", {}, each("bert.embeddings.", "word_embeddings.weight V,H embedding\nLayerNorm.weight H embedding"), each("bert.encoder.layer.0.", BERT),
       ["bert.pooler.dense.weight H,H output_head", "cls.predictions.transform.dense.weight H,H output_head"])
family("roberta", {}, ["roberta.embeddings.word_embeddings.weight V,H embedding"], each("roberta.encoder.layer.0.", BERT), ["lm_head.dense.weight H,H output_head"])
family("distilbert", {"dim": 128}, ["distilbert.embeddings.word_embeddings.weight V,H embedding"], attention("distilbert.transformer.layer.0.attention.", "q_lin", "k_lin", "v_lin", "out_lin"),
       plain("distilbert.transformer.layer.0.ffn.", "lin1", "lin2"), ["vocab_transform.weight H,H output_head"])
family("modernbert", {}, ["model.embeddings.tok_embeddings.weight V,H embedding", "head.dense.weight H,H output_head"], each("model.layers.0.",
       "attn.Wqkv.weight H*3,H attention.qkv\nattn.Wo.weight H,H attention.o\nmlp.Wi.weight X*2,H MLP.gate_up\nmlp.Wo.weight H,X MLP.down\nmlp_norm.weight H norm"))
family("t5", {"d_model": 128}, ["shared.weight V,H embedding", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight L,C attention.parameter"],
       attention("encoder.block.0.layer.0.SelfAttention.", "q", "k", "v", "o"), gated("encoder.block.0.layer.1.DenseReluDense.", "wi_0", "wi_1", "wo"), ["lm_head.weight V,H output_head"])
family("bart", {"d_model": 128}, ["model.shared.weight V,H embedding", "final_logits_bias 1,V bias"], attention("model.encoder.layers.0.self_attn.", o="out_proj"), plain("model.encoder.layers.0.", "fc1", "fc2"))
# diffusion
FLUX = ["x_embedder.weight H,K embedding", "context_embedder.weight H,H embedding", "time_text_embed.timestep_embedder.linear_1.weight H,H embedding",
        "norm_out.linear.weight I,H output_head", "proj_out.weight K,H output_head", "transformer_blocks.0.norm1.linear.weight I,H norm"]
family("FluxTransformer2DModel", {"_class_name": "FluxTransformer2DModel", "model_type": None, "hidden_size": None}, FLUX,
       [f"transformer_blocks.0.attn.{n}.weight H,H attention.{p}" for n, p in (("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("add_q_proj", "q"), ("to_out.0", "o"), ("to_add_out", "o"))],
       ["transformer_blocks.0.ff.net.0.proj.weight I,H MLP.up", "transformer_blocks.0.ff.net.2.weight H,I MLP.down",
        "single_transformer_blocks.0.proj_mlp.weight I,H MLP.up", "single_transformer_blocks.0.proj_out.weight H,I MLP.down"])
