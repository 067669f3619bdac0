"""The models of `transformers` that PyTorch's benchmarks/dynamo/huggingface.py runs, in small random configurations.

Each is judged as that runner judges accuracy: in evaluation by its outputs; in training by the loss, the gradients, and parameters
and buffers after a step of SGD. Eager mode is the reference, and a second one in float64 decides about what rounds differently."""

import copy
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "models"))

import torch
from torch._dynamo.testing import collect_results
from torch._dynamo.utils import same

BATCH, LENGTH = 2, 16
TOLERANCE = {"train": 1e-2, "eval": 1e-3}
NEARLY_NONE = 1e-30  # of dropout: it stays in the graph, and eager mode's random numbers need not be drawn

_PLAIN = """
AlbertForMaskedLM AlbertForQuestionAnswering BartForCausalLM BartForConditionalGeneration BertForMaskedLM BertForQuestionAnswering
BlenderbotForCausalLM BlenderbotForConditionalGeneration BlenderbotSmallForCausalLM BlenderbotSmallForConditionalGeneration
DistilBertForMaskedLM DistilBertForQuestionAnswering ElectraForCausalLM ElectraForQuestionAnswering GPTJForCausalLM
GPTJForQuestionAnswering LayoutLMForMaskedLM LayoutLMForSequenceClassification M2M100ForConditionalGeneration MBartForCausalLM
MBartForConditionalGeneration MegatronBertForCausalLM MegatronBertForQuestionAnswering OPTForCausalLM PLBartForCausalLM
PLBartForConditionalGeneration PegasusForCausalLM PegasusForConditionalGeneration TrOCRForCausalLM XLNetLMHeadModel
"""
# The benchmark's name of a model, the class, what differs from the small configuration of test/models.
_TALL = dict(max_position_embeddings=130)
_MODELS = {
    "AllenaiLongformerBase": ("LongformerForMaskedLM", dict(attention_window=[4, 4], max_position_embeddings=130)),
    "CamemBert": ("CamembertForMaskedLM", _TALL),
    "DistillGPT2": ("GPT2LMHeadModel", {}),
    "GoogleFnet": ("FNetForMaskedLM", {}),
    "Reformer": (
        "ReformerModelWithLMHead",
        dict(
            attn_layers=["local", "lsh"],
            axial_pos_shape=[4, 4],
            axial_pos_embds_dim=[32, 32],
            hash_seed=0,
            num_buckets=4,
            is_decoder=True,
            local_attn_chunk_length=4,
            lsh_attn_chunk_length=4,
            attention_head_size=16,
            feed_forward_size=128,
        ),
    ),
    "T5Small": ("T5ForConditionalGeneration", dict(num_heads=8, decoder_start_token_id=1)),
    "YituTechConvBert": ("ConvBertForMaskedLM", dict(embedding_size=32)),
    "gemma-2-2b": ("Gemma2ForCausalLM", dict(query_pre_attn_scalar=16)),
    "gemma-3-4b-it": (
        "Gemma3ForCausalLM",
        dict(query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"], config="Gemma3TextConfig"),
    ),
    "gpt-oss-20b": ("GptOssForCausalLM", dict(layer_types=["sliding_attention", "full_attention"])),
    "Llama-3.2-1B": ("LlamaForCausalLM", {}),
    "Mistral-7B-Instruct-v0.3": ("MistralForCausalLM", {}),
    "Qwen3-0.6B": ("Qwen3ForCausalLM", {}),
    "whisper-tiny": ("WhisperForConditionalGeneration", {}),
    **{name: (name, {}) for name in _PLAIN.split()},
    **{name: (name, dict(decoder_start_token_id=1)) for name in ("MT5ForConditionalGeneration", "T5ForConditionalGeneration")},
    "GPT2ForSequenceClassification": ("GPT2ForSequenceClassification", dict(pad_token_id=0)),
    "XGLMForCausalLM": ("XGLMForCausalLM", dict(attention_heads=4)),
    "RobertaForCausalLM": ("RobertaForCausalLM", _TALL),
    "RobertaForQuestionAnswering": ("RobertaForQuestionAnswering", _TALL),
    **{
        f"DebertaV2For{head}": (f"DebertaV2For{head}", dict(relative_attention=True, pos_att_type=["c2p", "p2c"]))
        for head in ("MaskedLM", "QuestionAnswering")
    },
    **{
        f"GPTNeoFor{head}": (f"GPTNeoFor{head}", dict(attention_types=[[["global", "local"], 1]], window_size=16, pad_token_id=0))
        for head in ("CausalLM", "SequenceClassification")
    },
    **{
        f"MobileBertFor{head}": (f"MobileBertFor{head}", dict(intra_bottleneck_size=32, true_hidden_size=32, num_feedforward_networks=2))
        for head in ("MaskedLM", "QuestionAnswering")
    },
}


def _configure(name):
    """(class, small configuration)"""
    import transformers

    import architectures

    class_name, options = _MODELS[name]
    options, found = dict(options), getattr(transformers, class_name)
    config_name = options.pop("config", found.config_class.__name__)
    config = architectures.Architecture("", class_name, config_name, None, options).small()
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, NEARLY_NONE)
    return found, config


def _draw(config, class_name):
    """The inputs, with what the loss needs."""
    vocabulary = config.vocab_size
    ids = torch.randint(3, vocabulary, (BATCH, LENGTH))
    ids[:, -1] = getattr(config, "eos_token_id", None) or 2  # the end of the sentence, where some models look
    drawn = {"input_ids": ids}
    if class_name.startswith("Whisper"):
        drawn = {"input_features": torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions)}
    if class_name.endswith("QuestionAnswering"):
        drawn.update(start_positions=torch.randint(LENGTH, (BATCH,)), end_positions=torch.randint(LENGTH, (BATCH,)))
    elif class_name.endswith("SequenceClassification"):
        drawn["labels"] = torch.randint(config.num_labels - 1, (BATCH,))
    else:
        drawn["labels"] = torch.randint(3, vocabulary, (BATCH, LENGTH))
    return drawn


def _build(name, training):
    """(model, inputs)"""
    found, config = _configure(name)
    torch.manual_seed(1337)
    model = found(config).train(training)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = NEARLY_NONE
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    return model, _draw(config, found.__name__)


def _to_double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _run(model, drawn, training, compile_function):
    torch.manual_seed(1337)
    call = compile_function(model)
    if not training:
        with torch.no_grad():
            return call(**drawn)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    loss = call(**drawn)[0]
    loss.backward()
    optimizer.step()
    return collect_results(model, None, loss, [])


def _run_exactly(model, drawn, training):
    """What eager mode gives in float64, None where an operator has no kernel for it: then the direction of results is what counts."""
    try:
        return _run(copy.deepcopy(model).double(), {key: _to_double(value) for key, value in drawn.items()}, training, lambda f: f)
    except RuntimeError:
        return None


def run(name, training, compile_function):
    """(state, detail)"""
    import entries

    torch._dynamo.reset()
    try:
        model, drawn = _build(name, training)
        exact = _run_exactly(model, drawn, training)
        expected, again = (_run(copy.deepcopy(model), drawn, training, lambda f: f) for _ in range(2))
    except Exception as error:  # of PyTorch or of transformers
        return entries.NOT_RUN, f"eager mode: {type(error).__name__}: {error}"
    said = []
    note = lambda message, *values: said.append(message % values if values else message)
    if not same(expected, again, tol=0, equal_nan=True, log_error=note):
        return entries.NOT_RUN, "eager mode gives one result, and then another"
    actual = _run(copy.deepcopy(model), drawn, training, compile_function)
    tolerance = TOLERANCE["train" if training else "eval"]
    if not same(expected, actual, exact, cos_similarity=exact is None, tol=tolerance, equal_nan=False, log_error=note):
        return entries.WRONG, "; ".join(said) or "differs"
    return entries.COMPILED, ""


def list_entries():
    """(name, model, whether in training)"""
    for name in sorted(_MODELS, key=str.lower):
        for training in (False, True):
            yield f"{name}.{'train' if training else 'eval'}", name, training
