"""Families of the last releases: as in published_more.py. What is new in them are towers of other names, gates of
heads, and indexers beside attention."""
from published import BASE, each, family

WIDE = {**BASE, "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4,
        "num_hidden_layers": 4}
NONE = dict.fromkeys(BASE)  # what the configuration around the language model does not say


family("granite_speech", {**NONE, "text_config": {**WIDE, "model_type": "granite"}, "encoder_config": {}}, each("", """language_model.model.embed_tokens.weight 1024,256 embedding
       language_model.model.layers.0.self_attn.q_proj.weight 256,256 attention.q
       encoder.layers.0.attn.to_q.weight 128,128 audio.q
       encoder.layers.0.attn.to_kv.weight 256,128 audio.kv
       encoder.layers.0.attn.to_out.weight 128,128 audio.o
       encoder.layers.0.ff1.up_proj.weight 512,128 audio.up
       encoder.layers.0.ff1.down_proj.weight 128,512 audio.down
       encoder.layers.0.conv.up_conv.weight 512,128,1 audio
       encoder.input_linear.weight 128,160 audio.gate_up
       encoder.out.weight 348,128 audio
       encoder.out_mid.weight 128,348 audio
       projector.qformer.encoder.layer.0.attention.attention.query.weight 128,128 projector.q
       projector.linear.weight 256,128 projector
       projector.query 1,3,128 projector.q"""))
family("bailing_moe_linear", {**WIDE, "num_experts": 4, "moe_intermediate_size": 128}, each("", """model.layers.0.attention.query_key_value.weight 768,256 attention.qkv
       model.layers.0.attention.g_proj.weight 256,256 attention.gate
       model.layers.0.attention.g_norm.weight 256 norm
       model.layers.0.attention.dense.weight 256,256 attention.o"""))
family("step3p5", {**WIDE, "moe_num_experts": 4, "moe_intermediate_size": 128}, each("", """model.layers.3.moe.gate_proj.weight 4,128,256 expert.gate
       model.layers.3.moe.down_proj.weight 4,256,128 expert.down
       model.layers.3.moe.gate.weight 4,256 router
       model.layers.3.moe.router_bias 4 router
       model.layers.3.share_expert.up_proj.weight 128,256 shared_expert.up
       model.layers.0.self_attn.g_proj.weight 8,256 attention.parameter
       model.layers.0.self_attn.q_proj.weight 256,256 attention.q"""))
family("gemma4", {**NONE, "text_config": {**WIDE, "model_type": "gemma4_text", "num_experts": 4, "moe_intermediate_size": 128}, "vision_config": {}, "audio_config": {}}, each("", """model.language_model.embed_tokens.weight 1024,256 embedding
       model.language_model.embed_tokens_per_layer.weight 1024,512 embedding
       model.language_model.layers.0.self_attn.q_proj.weight 256,256 attention.q
       model.language_model.layers.0.per_layer_input_gate.weight 64,256 other.parameter
       model.language_model.layers.0.per_layer_projection.weight 256,64 other.parameter
       model.language_model.layers.0.experts.gate_up_proj 4,256,256 expert.gate_up
       model.language_model.layers.0.experts.down_proj 4,256,128 expert.down
       model.language_model.layers.0.router.proj.weight 4,256 router
       model.language_model.layers.0.router.scale 256 router
       model.language_model.layers.0.router.per_expert_scale 4 router
       model.language_model.layers.0.layer_scalar 1 other
       model.language_model.per_layer_model_projection.weight 512,256 other.parameter
       model.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight 128,128 vision
       model.vision_tower.patch_embedder.input_proj.weight 128,768 vision
       model.audio_tower.layers.0.self_attn.q_proj.linear.weight 128,128 audio
       model.embed_vision.embedding_projection.weight 256,128 projector"""))
family("glm_moe_dsa", {**WIDE, "n_routed_experts": 4, "moe_intermediate_size": 128, "num_nextn_predict_layers": 1}, each("", """model.layers.0.self_attn.indexer.wq_b.weight 256,64 attention.parameter
       model.layers.0.self_attn.q_b_proj.weight 256,64 attention.q_b
       model.layers.1.mlp.experts.0.up_proj.weight 128,256 expert.up
       model.layers.4.eh_proj.weight 256,512 MTP
       model.layers.4.mlp.experts.0.up_proj.weight 128,256 MTP.up
       model.layers.4.shared_head.norm.weight 256 MTP"""))
family("mimo_v2_flash", {**WIDE, "n_routed_experts": 4, "moe_intermediate_size": 128}, each("", """model.layers.0.self_attn.q_proj.weight 256,256 attention.q
       model.layers.0.self_attn.attention_sink_bias 8 bias
       model.layers.1.mlp.gate.weight 4,256 router
       model.layers.1.mlp.experts.0.up_proj.weight 128,256 expert.up
       model.mtp.layers.0.self_attn.q_proj.weight 256,256 MTP.q
       model.mtp.layers.0.eh_proj.weight 256,512 MTP"""))
family("xlstm", WIDE, each("", """backbone.embeddings.weight 1024,256 embedding
       backbone.blocks.0.mlstm_layer.q.weight 128,256 attention.q
       backbone.blocks.0.mlstm_layer.v.weight 256,256 attention.v
       backbone.blocks.0.mlstm_layer.igate_preact.weight 4,256 state_space.parameter
       backbone.blocks.0.mlstm_layer.fgate_preact.weight 4,256 state_space.parameter
       backbone.blocks.0.mlstm_layer.ogate_preact.weight 256,256 state_space.gate
       backbone.blocks.0.mlstm_layer.out_proj.weight 256,256 attention.o
       backbone.blocks.0.mlstm_layer.multihead_norm.weight 256 norm
       backbone.blocks.0.ffn.proj_up.weight 512,256 MLP.up
       backbone.blocks.0.ffn.proj_up_gate.weight 512,256 MLP.up
       backbone.blocks.0.ffn.proj_down.weight 256,512 MLP.down
       lm_head.weight 1024,256 output_head"""))
family("ZImageTransformer2DModel", {**NONE, "_class_name": "ZImageTransformer2DModel", "dim": 256, "n_layers": 2, "model_type": None}, each("", """layers.0.attention.to_q.weight 256,256 attention.q
       layers.0.attention.to_out.0.weight 256,256 attention.o
       layers.0.attention.norm_q.weight 32 norm
       layers.0.feed_forward.w1.weight 512,256 MLP.gate
       layers.0.feed_forward.w2.weight 256,512 MLP.down
       layers.0.adaLN_modulation.0.weight 1024,256 norm
       noise_refiner.0.attention.to_q.weight 256,256 attention.q
       context_refiner.0.feed_forward.w1.weight 512,256 MLP.gate
       cap_embedder.1.weight 256,256 embedding
       all_x_embedder.2-1.weight 256,64 embedding
       all_final_layer.2-1.linear.weight 64,256 output_head
       all_final_layer.2-1.adaLN_modulation.1.weight 256,256 norm
       t_embedder.mlp.0.weight 256,256 embedding
       cap_pad_token 1,256 embedding"""))
family("kimi_k25", {**NONE, "text_config": {**WIDE, "model_type": "kimi_k2", "n_routed_experts": 4, "moe_intermediate_size": 128}, "vision_config": {}}, each("", """language_model.model.embed_tokens.weight 1024,256 embedding
       language_model.model.layers.1.mlp.experts.0.up_proj.weight 128,256 expert.up
       language_model.model.layers.1.mlp.shared_experts.up_proj.weight 128,256 shared_expert.up
       language_model.model.layers.1.self_attn.kv_b_proj.weight 256,64 attention.kv_b
       language_model.lm_head.weight 1024,256 output_head
       mm_projector.proj.0.weight 256,512 projector
       mm_projector.pre_norm.weight 128 projector
       vision_tower.encoder.blocks.0.wqkv.weight 384,128 vision.qkv
       vision_tower.encoder.blocks.0.mlp.fc0.weight 512,128 vision
       vision_tower.patch_embed.pos_emb.weight 64,64,128 vision"""))
family("internvl", {**NONE, "text_config": {**WIDE, "model_type": "qwen2"}, "vision_config": {"hidden_size": 128, "model_type": "internvl_vision"}}, each("", """model.language_model.embed_tokens.weight 1024,256 embedding
       model.language_model.layers.0.self_attn.q_proj.weight 256,256 attention.q
       model.language_model.layers.0.mlp.down_proj.weight 256,512 MLP.down
       model.vision_tower.encoder.layer.0.attention.q_proj.weight 128,128 vision.q
       model.vision_tower.encoder.layer.0.attention.projection_layer.weight 128,128 vision
       model.vision_tower.encoder.layer.0.mlp.fc1.weight 512,128 vision.up
       model.vision_tower.encoder.layer.0.lambda_1 128 vision
       model.vision_tower.embeddings.patch_embeddings.projection.weight 128,3,14,14 vision
       model.multi_modal_projector.linear_1.weight 256,512 projector
       lm_head.weight 1024,256 output_head"""))
family("minicpmv", WIDE, each("", """llm.model.embed_tokens.weight 1024,256 embedding
       llm.model.layers.0.self_attn.q_proj.weight 256,256 attention.q
       llm.lm_head.weight 1024,256 output_head
       vpm.encoder.layers.0.self_attn.q_proj.weight 128,128 vision.q
       vpm.embeddings.patch_embedding.weight 128,3,14,14 vision
       resampler.attn.in_proj_weight 768,256 projector.qkv
       resampler.attn.out_proj.weight 256,256 projector.o
       resampler.kv_proj.weight 256,128 projector.kv
       resampler.proj 256,256 projector.parameter
       resampler.query 64,256 projector.q
       apm.layers.0.self_attn.q_proj.weight 128,128 audio.q
       audio_projection_layer.linear1.weight 256,128 projector.up
       tts.model.layers.0.self_attn.q_proj.weight 128,128 audio.q"""))
family("afmoe", {**WIDE, "num_experts": 4, "moe_intermediate_size": 128}, each("", """model.layers.2.mlp.router.gate.weight 4,256 router
       model.layers.2.mlp.expert_bias 4 router
       model.layers.2.mlp.experts.0.up_proj.weight 128,256 expert.up
       model.layers.2.mlp.shared_experts.up_proj.weight 128,256 shared_expert.up
       model.layers.2.self_attn.gate_proj.weight 256,256 attention.gate
       model.layers.2.self_attn.q_proj.weight 256,256 attention.q"""))
family("deepseek_vl_v2", {**NONE, "language_config": {**WIDE, "model_type": "deepseek_v2", "n_routed_experts": 4, "moe_intermediate_size": 128}, "vision_config": {"hidden_size": 128}}, each("", """model.embed_tokens.weight 1024,256 embedding
       model.image_newline 256 projector
       model.view_seperator 256 projector
       model.layers.1.mlp.experts.0.gate_proj.weight 128,256 expert.gate
       model.layers.1.mlp.gate.weight 4,256 router
       model.layers.1.self_attn.q_proj.weight 256,256 attention.q
       model.projector.layers.weight 256,512 projector
       model.sam_model.blocks.0.attn.qkv.weight 384,128 vision.qkv
       model.sam_model.neck.0.weight 64,128,1,1 vision
       model.vision_model.transformer.layers.0.self_attn.qkv_proj.weight 384,128 vision.qkv
       model.vision_model.transformer.layers.0.mlp.fc1.weight 512,128 vision.up
       model.vision_model.embeddings.class_embedding 128 vision"""))
family("openelm", {**WIDE, "model_dim": 256}, each("", """transformer.token_embeddings.weight 1024,256 embedding
       transformer.layers.0.attn.qkv_proj.weight 512,256 attention.qkv
       transformer.layers.0.attn.out_proj.weight 256,256 attention.o
       transformer.layers.0.ffn.proj_1.weight 1024,256 MLP.gate_up
       transformer.layers.0.ffn.proj_2.weight 256,512 MLP.down"""))
family("kyutai_speech_to_text", {**WIDE, "codec_config": {}}, each("", """model.embed_tokens.embed_tokens.weight 1024,256 embedding
       model.layers.0.self_attn.q_proj.linear.weight 256,256 attention.q
       model.layers.0.self_attn.o_proj.linear.weight 256,256 attention.o
       model.layers.0.mlp.fc1.weight 512,256 MLP.up
       codec_model.encoder_transformer.layers.0.mlp.fc1.weight 512,128 audio.up
       codec_model.decoder_transformer.layers.0.self_attn.q_proj.weight 128,128 audio.q
       lm_head.weight 1024,256 output_head"""))
