"""Exports programs of several processes, one for each: python rank_models.py FOLDER RANKS...

No process group of several processes is needed: the backend "fake" sends nothing.
"""

import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]

import kiln.distributed  # noqa: E402

TEXT = dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=128, vocab_size=200, max_position_embeddings=64)


def build_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**TEXT, num_key_value_heads=4, use_cache=False, attn_implementation="sdpa"))
    return Logits(model.eval().requires_grad_(False))


def build_bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig(**TEXT), add_pooling_layer=False)
    return Logits(model.eval().requires_grad_(False))


class Logits(nn.Module):
    """The first output of a model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, return_dict=False)[0]


# Which side of each product is cut. What follows a column-wise one is local to a process, until a row-wise one adds up.
PLANS = {
    "llama": {
        **{f"model.model.layers.*.self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
        "model.model.layers.*.self_attn.o_proj": RowwiseParallel(),
        "model.model.layers.*.mlp.gate_proj": ColwiseParallel(),
        "model.model.layers.*.mlp.up_proj": ColwiseParallel(),
        "model.model.layers.*.mlp.down_proj": RowwiseParallel(),
        "model.lm_head": ColwiseParallel(output_layouts=torch.distributed.tensor.Replicate()),
    },
    "bert": {
        **{f"model.encoder.layer.*.attention.self.{name}": ColwiseParallel() for name in ("query", "key", "value")},
        "model.encoder.layer.*.attention.output.dense": RowwiseParallel(),
        "model.encoder.layer.*.intermediate.dense": ColwiseParallel(),
        "model.encoder.layer.*.output.dense": RowwiseParallel(),
    },
}
BUILD = {"llama": build_llama, "bert": build_bert}


def ids(rows):
    return torch.randint(3, 199, (1, rows), generator=torch.Generator().manual_seed(rows))


def export(folder, ranks):
    folder.mkdir()
    length = torch.export.Dim("length", min=2, max=64)
    for rank in range(ranks):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
        mesh = init_device_mesh("cpu", (ranks,))
        for name, build in BUILD.items():
            module = parallelize_module(build(), mesh, PLANS[name], src_data_rank=None)
            program = kiln.distributed.export(module, (ids(12),), [{1: length}])
            torch.export.save(program, folder / f"{name}.{rank}.pt2")
        dist.destroy_process_group()


def main():
    for ranks in map(int, sys.argv[2:]):
        export(pathlib.Path(sys.argv[1]) / str(ranks), ranks)


if __name__ == "__main__":
    main()
