#!/usr/bin/env python3
"""Measures retrieval on the labelled set of the tests and prints the table of MODEL.md.

    python evaluate.py TABLE.safetensors TOKENIZER.json RETRIEVAL.jsonl [--teacher MINILM.onnx]

The teacher is made by `make_teacher.py`. Rank fusion: 1 / (60 + rank), summed over both rankings; a passage
that BM25 does not find adds nothing. "Without common words" leaves out words of more than a tenth of the passages.
"""

import argparse
import collections
import json
import math
import re

import numpy as np
from static_model import StaticModel, tokenizer


def ranks(scores, found=None):
    """Places of all passages for each query, from 1; equal scores keep the order of the set. What is not found has none:
    a place at infinity."""
    order = np.argsort(-scores, axis=1, kind="stable")
    places = np.empty(scores.shape)
    np.put_along_axis(places, order, np.arange(1.0, scores.shape[1] + 1)[None, :], axis=1)
    return places if found is None else np.where(found, places, np.inf)


def bm25(queries, passages, k1=1.2, b=0.75, common=1.0):
    def words(text):
        return re.findall(r"[a-z0-9]+", text.lower())

    counts = [collections.Counter(words(passage)) for passage in passages]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths)
    found_in = collections.Counter(word for count in counts for word in count)
    scores = np.zeros((len(queries), len(passages)))
    for row, query in enumerate(queries):
        for word in words(query):
            if found_in[word] > common * len(passages):
                continue
            weight = math.log(1 + (len(passages) - found_in[word] + 0.5) / (found_in[word] + 0.5))
            for column, count in enumerate(counts):
                times = count[word]
                scores[row, column] += weight * times * (k1 + 1) / (times + k1 * (1 - b + b * lengths[column] / mean))
    return scores


def teacher(path, tokenizer_path):
    import onnxruntime

    encoder = tokenizer(tokenizer_path)
    encoder.enable_truncation(256)
    encoder.enable_padding()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def embed(texts):
        found = encoder.encode_batch(list(texts))
        ids = np.array([one.ids for one in found], np.int64)
        mask = np.array([one.attention_mask for one in found], np.int64)
        return session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0]

    return embed


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("table")
    arguments.add_argument("tokenizer")
    arguments.add_argument("set")
    arguments.add_argument("--teacher")
    chosen = arguments.parse_args()
    with open(chosen.set, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    passages = [entry["passage"] for entry in entries]
    models = {"built-in": StaticModel(chosen.table, chosen.tokenizer)}
    if chosen.teacher:
        models["all-MiniLM-L6-v2 (teacher)"] = teacher(chosen.teacher, chosen.tokenizer)
    for kind in ["queries", "keywords"]:
        queries, answers = zip(*[(query, at) for at, entry in enumerate(entries) for query in entry[kind]])
        found = {name: ranks(model(queries) @ model(passages).T) for name, model in models.items()}
        for kind_of, common in [("BM25", 1.0), ("BM25 without common words", 0.1)]:
            lexical = bm25(queries, passages, common=common)
            found[kind_of] = ranks(lexical, lexical > 0)
            for name in models:
                found[f"{name} + {kind_of}, fused"] = ranks(1 / (60 + found[name]) + 1 / (60 + found[kind_of]))
        print(f"{kind}: {len(queries)} for {len(passages)} passages\n\n| ranking | R@1 | R@5 | MRR |\n|---|---|---|---|")
        for name, places in found.items():
            right = places[np.arange(len(queries)), answers]
            print(f"| {name} | {(right == 1).mean():.3f} | {(right <= 5).mean():.3f} | {(1 / right).mean():.3f} |")
        print()


main()
