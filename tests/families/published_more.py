"""Further families of published models: as in published.py, whole names in place of prefixes. Their names are
unusual: other words for the same parts, numbers in other places, towers and adapters of their own kind."""
from published import BASE, each, family

family("gemma3n", {"text_config": {**BASE, "model_type": "gemma3n_text"}}, each("", """model.language_model.embed_tokens.weight 640,128 embedding
       model.language_model.embed_tokens_per_layer.weight 640,256 embedding
       model.language_model.layers.0.self_attn.q_proj.weight 128,128 attention.q
       model.language_model.layers.0.self_attn.k_proj.weight 64,128 attention.k
       model.language_model.layers.0.altup.modality_router.weight 4,128 attention.parameter
       model.language_model.layers.0.altup.prediction_coefs.weight 16,4 attention.parameter
       model.language_model.layers.0.laurel.linear_left.weight 64,128 attention.parameter
       model.language_model.layers.0.laurel.linear_right.weight 128,64 attention.parameter
       model.language_model.layers.0.per_layer_input_gate.weight 64,128 other.parameter
       model.language_model.layers.0.per_layer_projection.weight 128,64 other.parameter
       model.language_model.layers.0.mlp.gate_proj.weight 256,128 MLP.gate
       model.language_model.altup_projections.0.weight 128,128 attention.parameter
       model.language_model.altup_unembed_projections.0.weight 128,128 attention.parameter
       model.language_model.per_layer_model_projection.weight 512,128 other.parameter
       model.audio_tower.conformer.0.attention.attn.q_proj.weight 96,96 audio.q
       model.audio_tower.conformer.0.ffw_layer_start.ffw_layer_1.weight 384,96 audio
       model.audio_tower.subsample_conv_projection.input_proj_linear.weight 96,96 audio
       model.vision_tower.timm_model.blocks.0.0.conv_exp.weight 96,3,3,3 vision
       model.embed_vision.embedding_projection.weight 128,96 projector
       model.embed_audio.embedding.weight 128,96 projector"""))
family("minimax_text_01", {"num_local_experts": 4}, each("", """model.layers.0.self_attn.qkv_proj.weight 384,128 attention.qkv
       model.layers.0.self_attn.output_gate.weight 128,128 attention.gate
       model.layers.0.self_attn.out_proj.weight 128,128 attention.o
       model.layers.0.self_attn.norm.weight 128 norm
       model.layers.0.block_sparse_moe.experts.0.w1.weight 256,128 expert.gate
       model.layers.0.block_sparse_moe.experts.0.w2.weight 128,256 expert.down
       model.layers.0.block_sparse_moe.gate.weight 4,128 router"""))
family("step3_text", {"moe_num_experts": 4, "moe_intermediate_size": 64}, each("", """model.layers.4.moe.gate_proj.weight 4,64,128 expert.gate
       model.layers.4.moe.up_proj.weight 4,64,128 expert.up
       model.layers.4.moe.down_proj.weight 4,128,64 expert.down
       model.layers.4.moe.gate.weight 4,128 router
       model.layers.4.moe.router_bias 4 router
       model.layers.4.share_expert.gate_proj.weight 64,128 shared_expert.gate
       model.layers.4.share_expert.down_proj.weight 128,64 shared_expert.down
       model.layers.0.self_attn.q_proj.weight 64,128 attention.q
       model.layers.0.self_attn.wq.weight 128,64 attention.q
       model.layers.0.self_attn.k_proj.weight 32,128 attention.k
       model.layers.0.self_attn.inter_norm.weight 64 norm
       vision_model.transformer.resblocks.0.attn.in_proj_weight 288,96 vision.qkv
       vision_model.transformer.resblocks.0.mlp.c_fc.weight 384,96 vision.up
       vit_downsampler.weight 96,96,2,2 vision
       vit_large_projector.weight 128,96 projector"""))
family("kimi_linear", {"num_experts": 4, "moe_intermediate_size": 64, "num_experts_per_tok": 2}, each("", """model.layers.0.self_attn.q_proj.weight 128,128 attention.q
       model.layers.0.self_attn.q_conv1d.weight 128,1,4 convolution
       model.layers.0.self_attn.f_a_proj.weight 32,128 state_space.parameter
       model.layers.0.self_attn.f_b_proj.weight 128,32 state_space.parameter
       model.layers.0.self_attn.g_a_proj.weight 32,128 state_space.parameter
       model.layers.0.self_attn.g_b_proj.weight 128,32 state_space.parameter
       model.layers.0.self_attn.b_proj.weight 4,128 state_space.parameter
       model.layers.0.self_attn.A_log 1,1,4,1 state_space.parameter
       model.layers.0.self_attn.dt_bias 128 state_space.parameter
       model.layers.0.self_attn.o_norm.weight 32 norm
       model.layers.0.block_sparse_moe.experts.0.w1.weight 64,128 expert.gate
       model.layers.0.block_sparse_moe.gate.weight 4,128 router
       model.layers.0.block_sparse_moe.shared_experts.gate_proj.weight 64,128 shared_expert.gate
       model.layers.3.self_attn.kv_a_proj_with_mqa.weight 72,128 attention.kv_a
       model.layers.3.self_attn.kv_b_proj.weight 256,64 attention.kv_b"""))
family("longcat_flash", {"n_routed_experts": 4, "expert_ffn_hidden_size": 64, "ffn_hidden_size": 256}, each("", """model.layers.0.self_attn.0.q_a_proj.weight 64,128 attention.q_a
       model.layers.0.self_attn.1.q_b_proj.weight 128,64 attention.q_b
       model.layers.0.self_attn.0.kv_a_proj_with_mqa.weight 64,128 attention.kv_a
       model.layers.0.self_attn.0.o_proj.weight 128,128 attention.o
       model.layers.0.mlps.0.gate_proj.weight 256,128 MLP.gate
       model.layers.0.mlps.1.down_proj.weight 128,256 MLP.down
       model.layers.0.mlp.experts.0.gate_proj.weight 64,128 expert.gate
       model.layers.0.mlp.router.classifier.weight 6,128 router
       model.layers.0.mlp.router.e_score_correction_bias 6 router
       model.layers.0.input_layernorm.0.weight 128 norm
       model.mtp.layers.0.eh_proj.weight 128,256 MTP
       model.mtp.embed_tokens.weight 640,128 MTP
       model.mtp.layers.0.transformer_layer.mlp.gate_proj.weight 256,128 MTP.gate"""))
family("ernie4_5_vl_moe", {"moe_num_experts": [4, 4], "moe_intermediate_size": [64, 32]}, each("", """model.layers.1.mlp.gate.weight 128,4 router
       model.layers.1.mlp.gate.weight_1 128,4 router
       model.layers.1.mlp.experts.0.gate_proj.weight 64,128 expert.gate
       model.layers.1.mlp.experts.5.gate_proj.weight 32,128 expert.gate
       model.layers.1.mlp.shared_experts.up_proj.weight 64,128 shared_expert.up
       model.layers.1.mlp.moe_statics.e_score_correction_bias 2,4 router
       model.resampler_model.spatial_linear.0.weight 384,384 projector
       model.resampler_model.mlp.weight 128,96 projector
       model.resampler_model.after_norm.weight 128 projector
       vision_model.blocks.0.attn.qkv.weight 288,96 vision.qkv
       vision_model.patch_embed.proj.weight 96,588 vision.parameter"""))
family("glm4v_moe", {"text_config": {**BASE, "n_routed_experts": 4, "moe_intermediate_size": 64, "model_type": "glm4v_moe_text"}}, each("", """model.language_model.embed_tokens.weight 640,128 embedding
       model.language_model.layers.1.mlp.experts.0.gate_proj.weight 64,128 expert.gate
       model.language_model.layers.1.mlp.gate.weight 4,128 router
       model.language_model.layers.1.mlp.shared_experts.gate_proj.weight 64,128 shared_expert.gate
       model.language_model.layers.1.self_attn.q_proj.weight 128,128 attention.q
       model.visual.blocks.0.attn.qkv.weight 288,96 vision.qkv
       model.visual.blocks.0.mlp.gate_proj.weight 192,96 vision.gate
       model.visual.downsample.weight 128,96,2,2 vision
       model.visual.merger.gate_proj.weight 96,128 projector.gate
       model.visual.merger.proj.weight 96,96 projector.parameter
       model.visual.embeddings.position_embedding.weight 64,96 vision
       lm_head.weight 640,128 output_head"""))
family("deepseek_v32", {"num_hidden_layers": 2, "n_routed_experts": 4, "moe_intermediate_size": 64, "num_nextn_predict_layers": 1}, each("", """model.layers.0.self_attn.indexer.wq_b.weight 64,64 attention.parameter
       model.layers.0.self_attn.indexer.wk.weight 32,128 attention.parameter
       model.layers.0.self_attn.indexer.weights_proj.weight 4,128 attention.parameter
       model.layers.0.self_attn.indexer.k_norm.weight 32 attention.parameter
       model.layers.0.self_attn.q_b_proj.weight 128,64 attention.q_b
       model.layers.2.embed_tokens.weight 640,128 MTP
       model.layers.2.shared_head.head.weight 640,128 MTP
       model.layers.2.self_attn.kv_b_proj.weight 128,64 MTP.kv_b"""))
family("qwen3_omni_moe", {"thinker_config": {"text_config": {**BASE, "num_experts": 4, "moe_intermediate_size": 64, "num_experts_per_tok": 2}}, "talker_config": {}}, each("", """thinker.model.embed_tokens.weight 640,128 embedding
       thinker.model.layers.0.mlp.experts.0.gate_proj.weight 64,128 expert.gate
       thinker.model.layers.0.mlp.gate.weight 4,128 router
       thinker.audio_tower.conv2d1.weight 96,1,3,3 audio
       thinker.audio_tower.conv_out.weight 96,96 audio
       thinker.audio_tower.layers.0.self_attn.q_proj.weight 96,96 audio.q
       thinker.audio_tower.proj1.weight 96,96 audio
       thinker.visual.merger_list.0.mlp.0.weight 96,96 projector.up
       thinker.visual.pos_embed.weight 64,96 vision
       talker.model.layers.0.mlp.shared_expert.gate_proj.weight 64,128 audio.gate
       talker.model.layers.0.mlp.experts.0.gate_proj.weight 64,128 audio.gate
       talker.text_projection.linear_fc1.weight 128,128 audio.up
       talker.codec_head.weight 64,128 audio
       talker.code_predictor.model.layers.0.self_attn.q_proj.weight 128,128 audio.q
       talker.code_predictor.lm_head.0.weight 64,128 audio
       code2wav.pre_transformer.layers.0.self_attn.q_proj.weight 96,96 audio.q
       code2wav.decoder.0.conv.weight 96,96,7 audio"""))
family("granitemoehybrid", {"num_local_experts": 4, "shared_intermediate_size": 64}, each("", """model.layers.0.mamba.in_proj.weight 580,128 state_space.in
       model.layers.0.mamba.conv1d.weight 320,1,4 convolution
       model.layers.0.mamba.out_proj.weight 128,256 state_space.out
       model.layers.0.block_sparse_moe.input_linear.weight 4,128,128 expert.gate_up
       model.layers.0.block_sparse_moe.output_linear.weight 4,128,64 expert.down
       model.layers.0.block_sparse_moe.router.layer.weight 4,128 router
       model.layers.0.shared_mlp.input_linear.weight 128,128 shared_expert.gate_up
       model.layers.0.shared_mlp.output_linear.weight 128,64 shared_expert.down"""))
family("zamba2", {}, each("", """model.layers.0.mamba.in_proj.weight 580,128 state_space.in
       model.layers.5.shared_transformer.self_attn.q_proj.weight 256,256 attention.q
       model.layers.5.shared_transformer.feed_forward.gate_up_proj.weight 512,128 MLP.gate_up
       model.layers.5.shared_transformer.feed_forward.gate_up_proj_adapter_list.0.0.weight 64,128 other.parameter
       model.layers.5.shared_transformer.self_attn.linear_q_adapter_list.0.0.weight 64,128 other.parameter
       model.layers.5.mamba_decoder.mamba.in_proj.weight 580,128 state_space.in"""))
family("plamo2", {}, each("", """model.layers.layers.0.mixer.in_proj.weight 512,128 state_space.in
       model.layers.layers.0.mixer.bcdt_proj.weight 72,256 state_space.parameter
       model.layers.layers.0.mixer.dt_proj.weight 4,8 state_space.parameter
       model.layers.layers.1.mixer.qkv_proj.weight 256,128 attention.qkv
       model.layers.layers.1.mixer.o_proj.weight 128,128 attention.o
       model.layers.layers.1.mlp.gate_up_proj.weight 512,128 MLP.gate_up
       model.layers.layers.1.mlp.down_proj.weight 128,256 MLP.down"""))
family("grok-1", {"num_experts": 4}, each("", """model.layers.0.moe_block.experts.0.linear.weight 256,128 expert.gate
       model.layers.0.moe_block.experts.0.linear_1.weight 128,256 expert.down
       model.layers.0.moe_block.experts.0.linear_v.weight 256,128 expert.up
       model.layers.0.moe_block.gate.weight 4,128 router
       model.layers.0.attn.q_proj.weight 128,128 attention.q
       transformer.in_out_embed.weight 640,128 embedding"""))
family("phi4mm", {}, each("", """model.embed_tokens_extend.audio_embed.encoder.encoders.0.self_attn.linear_q.weight 96,96 audio.q
       model.embed_tokens_extend.audio_embed.audio_projection.speech.0.weight 128,96 projector
       model.embed_tokens_extend.image_embed.img_processor.encoder.layers.0.self_attn.q_proj.weight 96,96 vision.q
       model.embed_tokens_extend.image_embed.img_projection.0.weight 128,96 projector
       model.layers.0.self_attn.qkv_proj.base_layer.weight 256,128 attention.qkv
       model.layers.0.self_attn.qkv_proj.lora_A.speech.weight 32,128 other.parameter
       model.layers.0.self_attn.qkv_proj.lora_B.vision.weight 256,32 other.parameter
       model.layers.0.mlp.gate_up_proj.base_layer.weight 512,128 MLP.gate_up
       model.layers.0.mlp.down_proj.base_layer.weight 128,256 MLP.down"""))
family("rwkv7", {}, each("", """model.embeddings.weight 640,128 embedding
       model.layers.0.attn.r_proj.weight 128,128 state_space.q
       model.layers.0.attn.k_proj.weight 128,128 attention.k
       model.layers.0.attn.o_proj.weight 128,128 attention.o
       model.layers.0.attn.w_lora.lora.0.weight 32,128 other.parameter
       model.layers.0.attn.w_lora.lora.2.weight 128,32 other.parameter
       model.layers.0.attn.r_k 4,32 state_space.parameter
       model.layers.0.attn.x_r 1,1,128 state_space.parameter
       model.layers.0.ffn.key.weight 256,128 MLP.up
       model.layers.0.ffn.value.weight 128,256 MLP.down"""))
family("nomic_bert", {}, each("", """embeddings.word_embeddings.weight 640,128 embedding
       encoder.layers.0.attn.Wqkv.weight 384,128 attention.qkv
       encoder.layers.0.attn.out_proj.weight 128,128 attention.o
       encoder.layers.0.mlp.fc11.weight 256,128 MLP.up
       encoder.layers.0.mlp.fc12.weight 256,128 MLP.up
       encoder.layers.0.mlp.fc2.weight 128,256 MLP.down
       encoder.layers.0.mlp.router.layer.weight 4,128 router"""))
family("switch_transformers", {"d_model": 128, "num_experts": 4}, each("", """shared.weight 640,128 embedding
       encoder.block.1.layer.1.mlp.experts.expert_0.wi.weight 256,128 expert.up
       encoder.block.1.layer.1.mlp.experts.expert_0.wo.weight 128,256 expert.down
       encoder.block.1.layer.1.mlp.router.classifier.weight 4,128 router
       decoder.block.0.layer.1.EncDecAttention.q.weight 128,128 attention.q"""))
family("UNet2DConditionModel", {"hidden_size": None, "intermediate_size": None, "vocab_size": None, "num_hidden_layers": None, "num_attention_heads": None, "model_type": None, "_class_name": "UNet2DConditionModel", "cross_attention_dim": 256, "block_out_channels": [128, 256]}, each("", """down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight 128,128 attention.q
       down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight 128,256 attention.k
       down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_out.0.weight 128,128 attention.o
       down_blocks.1.attentions.0.transformer_blocks.0.ff.net.0.proj.weight 1024,128 MLP.up
       down_blocks.1.attentions.0.transformer_blocks.0.ff.net.2.weight 128,512 MLP.down
       down_blocks.0.resnets.0.conv1.weight 128,128,3,3 convolution
       down_blocks.0.resnets.0.time_emb_proj.weight 128,128 other.parameter
       down_blocks.1.attentions.0.proj_in.weight 128,128 other.parameter
       time_embedding.linear_1.weight 128,128 embedding
       add_embedding.linear_1.weight 128,128 embedding
       mid_block.attentions.0.proj_out.weight 128,128 other.parameter
       conv_in.weight 128,4,3,3 convolution"""))
family("WanTransformer3DModel", {"hidden_size": None, "model_type": None, "_class_name": "WanTransformer3DModel"}, each("", """blocks.0.attn1.to_q.weight 128,128 attention.q
       blocks.0.attn2.add_k_proj.weight 128,128 attention.k
       blocks.0.ffn.net.0.proj.weight 256,128 MLP.up
       blocks.0.ffn.net.2.weight 128,256 MLP.down
       blocks.0.scale_shift_table 1,6,128 norm
       condition_embedder.time_embedder.linear_1.weight 128,128 embedding
       condition_embedder.time_proj.weight 768,128 embedding.parameter
       condition_embedder.text_embedder.linear_1.weight 128,256 embedding
       condition_embedder.image_embedder.ff.net.0.proj.weight 128,128 embedding.up
       patch_embedding.weight 128,16,1,2,2 embedding
       proj_out.weight 64,128 output_head"""))
family("QwenImageTransformer2DModel", {"hidden_size": None, "model_type": None, "_class_name": "QwenImageTransformer2DModel"}, each("", """transformer_blocks.0.attn.to_q.weight 128,128 attention.q
       transformer_blocks.0.attn.add_q_proj.weight 128,128 attention.q
       transformer_blocks.0.attn.to_add_out.weight 128,128 attention.o
       transformer_blocks.0.img_mlp.net.0.proj.weight 256,128 MLP.up
       transformer_blocks.0.img_mlp.net.2.weight 128,256 MLP.down
       transformer_blocks.0.txt_mlp.net.2.weight 128,256 MLP.down
       transformer_blocks.0.img_mod.1.weight 768,128 norm
       txt_in.weight 128,256 embedding
       img_in.weight 128,64 embedding
       txt_norm.weight 256 norm
       time_text_embed.timestep_embedder.linear_1.weight 128,256 embedding
       proj_out.weight 64,128 output_head"""))
family("bailing_moe", {"num_experts": 4, "moe_intermediate_size": 64, "num_experts_per_tok": 2, "num_shared_experts": 1}, each("", """model.word_embeddings.weight 640,128 embedding
       model.layers.0.attention.query_key_value.weight 256,128 attention.qkv
       model.layers.0.attention.dense.weight 128,128 attention.o
       model.layers.0.mlp.experts.0.gate_proj.weight 64,128 expert.gate
       model.layers.0.mlp.shared_experts.gate_proj.weight 64,128 shared_expert.gate
       model.layers.0.mlp.gate.weight 4,128 router
       model.layers.0.mlp.gate.expert_bias 4 router
       lm_head.weight 640,128 output_head"""))
