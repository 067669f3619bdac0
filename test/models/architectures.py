"""Architectures of `transformers` in small random configurations.

An entry is a line: the model class, its configuration class, what its inputs are, and what differs from `SMALL`. A
configuration is the class's default made small: wherever it (or a nested one) has a parameter that `SMALL` names, that value
is taken, so most entries need nothing more."""

import dataclasses
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch

import inputs

SMALL = dict(
    # text
    hidden_size=64,
    d_model=64,
    n_embd=64,
    dim=64,
    embed_dim=64,
    embedding_size=32,
    emb_dim=64,
    intermediate_size=128,
    ffn_dim=128,
    hidden_dim=128,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    d_ff=128,
    d_kv=16,
    n_inner=128,
    d_inner=128,
    ffn_hidden_size=128,
    num_hidden_layers=2,
    num_layers=2,
    num_decoder_layers=2,
    n_layer=2,
    n_layers=2,
    encoder_layers=2,
    decoder_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_heads=4,
    n_head=4,
    n_heads=4,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    vocab_size=200,
    max_position_embeddings=128,
    n_positions=128,
    max_seq_len=128,
    n_ctx=128,
    head_dim=16,
    sliding_window=16,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    rotary_dim=8,
    word_embed_proj_dim=64,
    # mixture of experts
    num_local_experts=4,
    num_experts=4,
    n_routed_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    shared_expert_intermediate_size=64,
    # state space
    state_size=8,
    mamba_d_state=8,
    mamba_d_conv=4,
    time_step_rank=4,
    mamba_dt_rank=4,
    # images
    image_size=32,
    patch_size=8,
    num_labels=10,
    num_queries=10,
    num_detection_tokens=4,
    num_frames=4,
    projection_dim=32,
    # sound
    num_mel_bins=16,
    max_source_positions=30,
    max_target_positions=64,
    conv_dim=[32, 32, 32],
    conv_kernel=[10, 3, 3],
    conv_stride=[5, 2, 2],
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
    max_length=64,
    # nothing is generated, nothing is drawn at random
    use_cache=False,
    mask_time_prob=0.0,
    mask_feature_prob=0.0,
    layerdrop=0.0,
)
STAGES = dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1])


@dataclasses.dataclass
class Architecture:
    family: str
    model: str
    config: str
    inputs: object  # a function of inputs.py
    options: dict  # beside SMALL; a value of None leaves the default

    def small(self):
        """The configuration."""
        import transformers

        config_class = getattr(transformers, self.config)
        config = config_class(**_small(config_class().to_dict(), self.options))
        config.return_dict = True
        return config

    def build(self):
        """(model in evaluation mode, configuration)"""
        import transformers

        config = self.small()
        torch.manual_seed(0)
        return getattr(transformers, self.model)(config).eval().requires_grad_(False), config


def _small(defaults, options, depth=0):
    chosen = {}
    for key, value in defaults.items():
        if key in options:
            if isinstance(value, dict) and isinstance(options[key], dict):
                chosen[key] = {**_kept(value), **_small(value, options[key], depth + 1)}
            continue
        if isinstance(value, dict) and key.endswith("config"):
            chosen[key] = {**_kept(value), **_small(value, {}, depth + 1)}
        elif key in SMALL and value is not None and (isinstance(value, list) == isinstance(SMALL[key], list)):
            chosen[key] = SMALL[key]
    chosen.update({key: value for key, value in options.items() if value is not None and key not in chosen})
    return chosen


def _kept(defaults):
    return {key: value for key, value in defaults.items() if key in ("model_type",)}


def _table():
    table = {}

    def add(family, name, model, config, inputs, **options):
        assert name not in table, name
        table[name] = Architecture(family, model, config, inputs, options)

    def text(name, prefix, head="Model", inputs=inputs.text, **options):
        add("text", name, prefix + head, prefix + "Config", inputs, **options)

    def decoder(name, prefix, inputs=inputs.text, config=None, **options):
        add("text", name, prefix + "ForCausalLM", config or prefix + "Config", inputs, **options)

    def experts(name, prefix, config=None, **options):
        add("mixture of experts", name, prefix + "ForCausalLM", config or prefix + "Config", inputs.text, **options)

    def states(name, prefix, inputs=inputs.short_text, **options):
        add("state space", name, prefix + "ForCausalLM", prefix + "Config", inputs, **options)

    def pair(name, prefix, **options):
        add("encoder and decoder", name, prefix + "ForConditionalGeneration", prefix + "Config", inputs.translation, **options)

    def image(name, prefix, head="ForImageClassification", inputs=inputs.image, **options):
        add("vision", name, prefix + head, prefix + "Config", inputs, **options)

    def audio(name, prefix, head="Model", inputs=inputs.sound, **options):
        add("audio", name, prefix + head, prefix + "Config", inputs, **options)

    # Encoders of text.
    text("bert", "Bert")
    text("bert-mlm", "Bert", "ForMaskedLM")
    text("roberta", "Roberta", max_position_embeddings=130)
    text("xlm-roberta", "XLMRoberta", max_position_embeddings=130)
    text("distilbert", "DistilBert")
    text("albert", "Albert")
    text("electra", "Electra")
    text("mpnet", "MPNet", max_position_embeddings=130)
    text("camembert", "Camembert", max_position_embeddings=130)
    text("deberta", "Deberta", relative_attention=True, pos_att_type=["c2p", "p2c"])
    text("deberta-v2", "DebertaV2", relative_attention=True, pos_att_type=["c2p", "p2c"])
    text("mobilebert", "MobileBert", intra_bottleneck_size=32, true_hidden_size=32, num_feedforward_networks=2)
    text("squeezebert", "SqueezeBert", embedding_size=64)
    text("convbert", "ConvBert", embedding_size=32)
    text("roformer", "RoFormer")
    text("nystromformer", "Nystromformer", segment_means_seq_len=8, num_landmarks=8, conv_kernel_size=5)
    text("megatron-bert", "MegatronBert")
    text("fnet", "FNet", inputs=inputs.text_unmasked)
    text("funnel", "Funnel", block_sizes=[1, 1], num_decoder_layers=1)
    text("modernbert", "ModernBert", global_attn_every_n_layers=2, local_attention=8)
    text("layoutlm", "LayoutLM", inputs=inputs.layout)
    text("esm", "Esm", max_position_embeddings=130, mask_token_id=3, vocab_size=200, pad_token_id=1)
    text("ibert", "IBert")
    text("rembert", "RemBert", input_embedding_size=32, output_embedding_size=32)
    text("xlnet", "XLNet", "Model")
    # Decoders of text.
    decoder("opt", "OPT")
    decoder("llama", "Llama")
    decoder("qwen2", "Qwen2")
    decoder("qwen3", "Qwen3")
    decoder("mistral", "Mistral")
    decoder("gemma", "Gemma")
    decoder("gemma2", "Gemma2", query_pre_attn_scalar=16)
    decoder("phi", "Phi", num_key_value_heads=4)
    decoder("phi3", "Phi3")
    decoder("falcon", "Falcon")
    decoder("bloom", "Bloom")
    decoder("mpt", "Mpt")
    decoder("codegen", "CodeGen")
    decoder("gptj", "GPTJ")
    decoder("gpt-neox", "GPTNeoX")
    decoder("gpt-neo", "GPTNeo", attention_types=[[["global", "local"], 1]], window_size=16)
    decoder("gpt-bigcode", "GPTBigCode")
    add("text", "gpt2", "GPT2LMHeadModel", "GPT2Config", inputs.text)
    add("text", "openai-gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", inputs.text)
    add("text", "ctrl", "CTRLLMHeadModel", "CTRLConfig", inputs.text, dff=128)
    decoder("stablelm", "StableLm")
    decoder("starcoder2", "Starcoder2")
    decoder("granite", "Granite")
    decoder("olmo", "Olmo")
    decoder("olmo2", "Olmo2")
    decoder("cohere", "Cohere")
    decoder("smollm3", "SmolLM3")
    decoder("persimmon", "Persimmon")
    decoder("nemotron", "Nemotron", num_key_value_heads=2, head_dim=16)
    decoder("glm", "Glm")
    decoder("biogpt", "BioGpt")
    decoder("xglm", "XGLM", attention_heads=4)
    decoder("gemma3", "Gemma3", config="Gemma3TextConfig", query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"])
    decoder("cohere2", "Cohere2", layer_types=["sliding_attention", "full_attention"])
    decoder("exaone4", "Exaone4", layer_types=["sliding_attention", "full_attention"])
    decoder("glm4", "Glm4")
    decoder("ernie4.5", "Ernie4_5")
    decoder("helium", "Helium")
    decoder("arcee", "Arcee")
    decoder("apertus", "Apertus")
    decoder("diffllama", "DiffLlama")
    decoder("doge", "Doge")
    text("big-bird", "BigBird", attention_type="original_full")
    text("canine", "Canine", downsampling_rate=4, upsampling_kernel_size=4, num_hash_buckets=64, local_transformer_stride=8)
    text("ernie", "Ernie")
    text("flaubert", "Flaubert", emb_dim=64, n_heads=4, n_layers=2, n_words=200, bos_index=0, eos_index=1, pad_index=2)
    text("bros", "Bros", inputs=inputs.layout_of_numbers, dim_bbox=8)
    # Mixtures of experts.
    experts("mixtral", "Mixtral")
    experts("qwen2-moe", "Qwen2Moe")
    experts("qwen3-moe", "Qwen3Moe")
    experts("olmoe", "Olmoe")
    experts("phimoe", "Phimoe")
    experts("granite-moe", "GraniteMoe")
    experts(
        "deepseek-v3",
        "DeepseekV3",
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=16,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        num_key_value_heads=4,
        head_dim=None,
    )
    experts("gpt-oss", "GptOss", layer_types=["sliding_attention", "full_attention"])
    experts("glm4-moe", "Glm4Moe", n_group=1, topk_group=1, first_k_dense_replace=1)
    experts("minimax", "MiniMax", layer_types=["full_attention", "linear_attention"], block_size=8)
    experts("flex-olmo", "FlexOlmo")
    # State spaces and other recurrences.
    states("mamba", "Mamba")
    states("mamba2", "Mamba2", inputs=inputs.text_in_one_chunk, num_heads=8, head_dim=16, n_groups=2, chunk_size=8)
    states("falcon-mamba", "FalconMamba")
    states("rwkv", "Rwkv", attention_hidden_size=64, context_length=64)
    states("recurrent-gemma", "RecurrentGemma", lru_width=64, attention_window_size=16, num_hidden_layers=3)
    states(
        "bamba",
        "Bamba",
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_chunk_size=8,
        attn_layer_indices=[1],
        inputs=inputs.text_in_one_chunk,
    )
    states(
        "jamba", "Jamba", attn_layer_offset=1, attn_layer_period=2, expert_layer_offset=1, expert_layer_period=2, use_mamba_kernels=False
    )
    states(
        "falcon-h1",
        "FalconH1",
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_chunk_size=8,
        mamba_d_ssm=128,
        inputs=inputs.text_in_one_chunk,
    )
    states(
        "granite-hybrid",
        "GraniteMoeHybrid",
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_chunk_size=8,
        layer_types=["mamba", "attention"],
        inputs=inputs.text_in_one_chunk,
    )
    states(
        "nemotron-h",
        "NemotronH",
        layers_block_type=["mamba", "attention"],
        mamba_num_heads=8,
        mamba_head_dim=16,
        n_groups=2,
        chunk_size=8,
        ssm_state_size=8,
        inputs=inputs.text_in_one_chunk,
    )
    # Pairs of an encoder and a decoder.
    pair("t5", "T5")
    pair("mt5", "MT5")
    pair("bart", "Bart")
    pair("mbart", "MBart")
    pair("pegasus", "Pegasus")
    pair("blenderbot", "Blenderbot")
    pair("m2m-100", "M2M100")
    add("encoder and decoder", "marian", "MarianMTModel", "MarianConfig", inputs.translation)
    pair("blenderbot-small", "BlenderbotSmall")
    # Images.
    image("vit", "ViT")
    image("deit", "DeiT")
    image("beit", "Beit")
    image("dinov2", "Dinov2", "Model")
    image("ijepa", "IJepa", "Model")
    image("swin", "Swin", patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)
    image("swinv2", "Swinv2", patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)
    image(
        "focalnet", "FocalNet", patch_size=2, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3], hidden_sizes=[16, 32]
    )
    image(
        "hiera",
        "Hiera",
        patch_size=[4, 4],
        patch_stride=[2, 2],
        patch_padding=[1, 1],
        embed_dim=16,
        image_size=[32, 32],
        depths=[1, 1],
        num_heads=[1, 2],
        query_stride=[2, 2],
        masked_unit_size=[4, 4],
        num_query_pool=1,
    )
    image("convnext", "ConvNext", inputs=inputs.large_image, **STAGES)
    image("convnextv2", "ConvNextV2", inputs=inputs.large_image, **STAGES)
    image("resnet", "ResNet", inputs=inputs.large_image, embedding_size=16, **STAGES)
    image("regnet", "RegNet", inputs=inputs.large_image, embedding_size=16, groups_width=16, **STAGES)
    image("bit", "Bit", inputs=inputs.large_image, embedding_size=16, num_groups=8, **STAGES)
    image("mobilenet-v1", "MobileNetV1", inputs=inputs.large_image, depth_multiplier=0.25, image_size=64)
    image("mobilenet-v2", "MobileNetV2", inputs=inputs.large_image, depth_multiplier=0.25, image_size=64)
    image(
        "mobilevit",
        "MobileViT",
        inputs=inputs.large_image,
        image_size=64,
        patch_size=2,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 16, 16, 24, 24, 32, 64],
    )
    image(
        "efficientnet",
        "EfficientNet",
        inputs=inputs.large_image,
        width_coefficient=0.25,
        depth_coefficient=0.4,
        hidden_dim=320,
        image_size=64,
    )
    image(
        "poolformer",
        "PoolFormer",
        inputs=inputs.large_image,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        patch_size=None,
        num_encoder_blocks=4,
    )
    image(
        "levit",
        "Levit",
        inputs=inputs.large_image,
        image_size=64,
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[1, 2, 3],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        patch_size=16,
    )
    image("cvt", "Cvt", inputs=inputs.large_image, embed_dim=[16, 32, 48], num_heads=[1, 2, 3], depth=[1, 2, 3], patch_size=None)
    image(
        "pvt",
        "Pvt",
        inputs=inputs.large_image,
        image_size=64,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        patch_size=None,
    )
    image(
        "segformer",
        "Segformer",
        "ForSemanticSegmentation",
        inputs=inputs.large_image,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=32,
    )
    image(
        "upernet",
        "UperNet",
        "ForSemanticSegmentation",
        inputs=inputs.large_image,
        hidden_size=32,
        pool_scales=[1, 2],
        use_auxiliary_head=False,
        backbone_config=dict(model_type="convnext", out_features=["stage1", "stage2", "stage3", "stage4"], **STAGES),
    )
    image(
        "dpt",
        "DPT",
        "ForDepthEstimation",
        backbone_out_indices=[0, 1, 2, 3],
        num_hidden_layers=4,
        neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
        is_hybrid=False,
    )
    image("yolos", "Yolos", "ForObjectDetection", image_size=[32, 32])
    image(
        "detr",
        "Detr",
        "ForObjectDetection",
        inputs=inputs.large_image,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=dict(model_type="resnet", embedding_size=16, out_features=["stage4"], **STAGES),
    )
    image("sam-vision", "SamVision", "Model", patch_size=8, window_size=2, global_attn_indexes=[1], output_channels=32, mlp_dim=128)
    image("swin2sr", "Swin2SR", "ForImageSuperResolution", patch_size=1, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    image("data2vec-vision", "Data2VecVision")
    image("donut", "DonutSwin", "Model", patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)
    image(
        "glpn",
        "GLPN",
        "ForDepthEstimation",
        inputs=inputs.large_image,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=16,
    )
    image("dinov2-registers", "Dinov2WithRegisters", "Model")
    image("dinov3-vit", "DINOv3ViT", "Model")
    image("dinov3-convnext", "DINOv3ConvNext", "Model", inputs=inputs.large_image, **STAGES)
    image(
        "hgnet-v2",
        "HGNetV2",
        inputs=inputs.large_image,
        stem_channels=[3, 8, 16],
        stage_in_channels=[16, 16, 32, 32],
        stage_mid_channels=[8, 8, 16, 16],
        stage_out_channels=[16, 32, 32, 64],
        stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[2, 2, 2, 2],
        hidden_sizes=[16, 32, 32, 64],
        embedding_size=16,
    )
    image(
        "conditional-detr",
        "ConditionalDetr",
        "ForObjectDetection",
        inputs=inputs.large_image,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=dict(model_type="resnet", embedding_size=16, out_features=["stage4"], **STAGES),
    )
    image(
        "deformable-detr",
        "DeformableDetr",
        "ForObjectDetection",
        inputs=inputs.large_image,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        num_feature_levels=2,
        backbone_config=dict(model_type="resnet", embedding_size=16, out_features=["stage3", "stage4"], **STAGES),
    )
    image("aimv2", "Aimv2Vision", "Model")
    image("videomae", "VideoMAE", "ForVideoClassification", inputs=inputs.video)
    image("timesformer", "Timesformer", "ForVideoClassification", inputs=inputs.video)
    image("vivit", "Vivit", "ForVideoClassification", inputs=inputs.video, tubelet_size=[2, 8, 8])
    image("imagegpt", "ImageGPT", "ForImageClassification", inputs=inputs.pixel_tokens)
    # Sound.
    audio("wav2vec2", "Wav2Vec2")
    audio("wav2vec2-ctc", "Wav2Vec2", "ForCTC")
    audio("hubert", "Hubert")
    audio("wavlm", "WavLM")
    audio("unispeech", "UniSpeech")
    audio("sew", "SEW", inputs=inputs.sound_of_pairs, squeeze_factor=2)
    audio("data2vec-audio", "Data2VecAudio", num_conv_pos_embeddings=5, conv_pos_kernel_size=5)
    audio("ast", "AST", "ForAudioClassification", inputs=inputs.spectrogram, num_mel_bins=32, patch_size=16)
    audio("whisper", "Whisper", "ForConditionalGeneration", inputs=inputs.speech)
    audio(
        "dac",
        "Dac",
        inputs=inputs.waveform,
        encoder_hidden_size=8,
        decoder_hidden_size=32,
        downsampling_ratios=[2, 4],
        upsampling_ratios=[4, 2],
        codebook_size=32,
        codebook_dim=8,
        n_codebooks=2,
        hidden_size=None,
    )
    audio(
        "univnet",
        "UnivNet",
        inputs=inputs.vocoder,
        model_in_channels=16,
        model_hidden_channels=8,
        num_mel_bins=16,
        kernel_predictor_hidden_channels=16,
    )
    # Several kinds of input.
    several = "multimodal"
    add(several, "clip", "CLIPModel", "CLIPConfig", inputs.image_and_text)
    add(several, "siglip", "SiglipModel", "SiglipConfig", inputs.image_and_text)
    add(several, "blip", "BlipForImageTextRetrieval", "BlipConfig", inputs.image_and_text, image_text_hidden_size=32)
    add(
        several,
        "align",
        "AlignModel",
        "AlignConfig",
        inputs.large_image_and_text,
        projection_dim=80,
        vision_config=dict(width_coefficient=0.25, depth_coefficient=0.4, hidden_dim=64, image_size=64),
    )
    add(several, "clap", "ClapTextModelWithProjection", "ClapTextConfig", inputs.text, max_position_embeddings=130)
    add(
        several,
        "groupvit",
        "GroupViTModel",
        "GroupViTConfig",
        inputs.image_and_text,
        vision_config=dict(depths=[1, 1, 1], num_group_tokens=[4, 2, 0], num_output_groups=[4, 2, 0], patch_size=8, image_size=32),
    )
    add(
        several,
        "llava",
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        inputs.image_in_text,
        image_token_index=199,
        image_seq_length=16,
        vision_config=dict(model_type="clip_vision_model", num_hidden_layers=3),
        text_config=dict(model_type="llama"),
        vision_feature_layer=-2,
    )
    add(
        several,
        "paligemma",
        "PaliGemmaForConditionalGeneration",
        "PaliGemmaConfig",
        inputs.image_in_text,
        image_token_index=199,
        projection_dim=64,
        vision_config=dict(model_type="siglip_vision_model", projection_dim=64),
        text_config=dict(model_type="gemma", vocab_size=200),
        hidden_size=64,
    )
    add(several, "chinese-clip", "ChineseCLIPModel", "ChineseCLIPConfig", inputs.image_and_text)
    add(
        several,
        "clipseg",
        "CLIPSegForImageSegmentation",
        "CLIPSegConfig",
        inputs.image_and_text,
        reduce_dim=32,
        extract_layers=[0, 1],
        decoder_num_attention_heads=4,
        decoder_intermediate_size=64,
    )
    add(
        several,
        "altclip",
        "AltCLIPModel",
        "AltCLIPConfig",
        inputs.image_and_text,
        text_config=dict(project_dim=32, max_position_embeddings=130),
    )
    add(several, "git", "GitForCausalLM", "GitConfig", inputs.image_and_text)
    add(
        several,
        "bridgetower",
        "BridgeTowerModel",
        "BridgeTowerConfig",
        inputs.image_and_text,
        text_config=dict(max_position_embeddings=130),
    )
    add(several, "flava", "FlavaModel", "FlavaConfig", inputs.image_and_text)
    add(
        several,
        "blip-2",
        "Blip2ForConditionalGeneration",
        "Blip2Config",
        inputs.queries_in_text,
        image_token_index=199,
        num_query_tokens=16,
        text_config=dict(model_type="opt", vocab_size=200),
        qformer_config=dict(encoder_hidden_size=64, hidden_size=64),
    )
    # Series of numbers.
    add(
        "time series",
        "patchtst",
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        inputs.series,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        prediction_length=8,
        num_input_channels=3,
        do_mask_input=False,
    )
    add(
        "time series",
        "patchtsmixer",
        "PatchTSMixerForPrediction",
        "PatchTSMixerConfig",
        inputs.series,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        prediction_length=8,
        num_input_channels=3,
    )
    return table


ARCHITECTURES = _table()
# torch.export refuses these: their Python code decides on values of tensors.
NOT_EXPORTED = ("encodec", "fsmt", "led", "longformer", "vilt")
