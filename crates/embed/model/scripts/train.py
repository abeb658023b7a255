#!/usr/bin/env python3
"""Trains a table so that the sum of a text's rows points where the teacher's vector points.

    python train.py features TOKENIZER.json TEACHER.onnx TEXTS OUT.npz    # slow: the teacher reads every text
    python train.py table TOKENIZER.json MODEL_FOLDER FEATURES.npz OUT.safetensors [--epochs 12]

TEXTS has a text on each line. Loss: 1 - cosine. Start: the teacher's input embeddings, weighted by rarity and mapped
onto its output space by ridge regression. End: the 256 strongest directions, int8 with a scale for each row.
"""

import argparse

import numpy as np
from safetensors.numpy import load_file, save_file
from static_model import tokenizer


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)


def features(chosen):
    import onnxruntime

    encoder = tokenizer(chosen.tokenizer)
    encoder.enable_truncation(64)
    encoder.enable_padding()
    session = onnxruntime.InferenceSession(chosen.teacher, providers=["CPUExecutionProvider"])
    with open(chosen.texts, encoding="utf-8") as file:
        texts = sorted((line.strip() for line in file if line.strip()), key=len)
    vectors, tokens = [], []
    for start in range(0, len(texts), 64):
        found = encoder.encode_batch(texts[start : start + 64])
        ids = np.array([one.ids for one in found], np.int64)
        mask = np.array([one.attention_mask for one in found], np.int64)
        vectors.append(session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0].astype(np.float16))
        # Without the special tokens at both ends.
        tokens += [row[used > 0][1:-1].astype(np.int32) for row, used in zip(ids, mask)]
    bounds = np.cumsum([0] + [len(row) for row in tokens])
    np.savez(chosen.out, vectors=np.concatenate(vectors), tokens=np.concatenate(tokens), bounds=bounds)


def start_from_teacher(bags, target, raw):
    rarity = np.log((bags.shape[0] + 1) / (np.asarray((bags > 0).sum(0)).ravel() + 1))
    rows = (raw * (rarity / rarity.max())[:, None]).astype(np.float32)
    means = np.asarray(bags @ rows) / np.maximum(1, np.asarray(bags.sum(1)))
    ridge = 1e-3 * len(target) * means.var() * np.eye(means.shape[1])
    rows = (rows @ np.linalg.solve(means.T @ means + ridge, means.T @ target)).astype(np.float32)
    return rows / (np.abs(rows).mean() * 20)


def descend(rows, bags, target, epochs, rate=2e-3, batch=1024):
    """Adam on the rows that a batch touches."""
    dice = np.random.default_rng(1)
    held_out = dice.random(len(target)) < 0.03
    order, check = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    first, second, step = np.zeros_like(rows), np.zeros_like(rows), 0
    for epoch in range(epochs):
        dice.shuffle(order)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            bag, goal = bags[chosen], target[chosen]
            sums = np.asarray(bag @ rows)
            length = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
            direction = sums / length
            slope = -(goal - (direction * goal).sum(1, keepdims=True) * direction) / length / len(chosen)
            touched = np.unique(bag.indices)
            gradient = np.asarray(bag.T @ slope)[touched]
            step += 1
            first[touched] = 0.9 * first[touched] + 0.1 * gradient
            second[touched] = 0.99 * second[touched] + 0.01 * gradient**2
            pace = rate * (1 - epoch / epochs) / (1 - 0.9**step)
            rows[touched] -= pace * first[touched] / (np.sqrt(second[touched] / (1 - 0.99**step)) + 1e-8)
        cosine = (unit(np.asarray(bags[check] @ rows)) * target[check]).sum(1).mean()
        print(f"epoch {epoch}: cosine {cosine:.4f} on {len(check)} texts held out", flush=True)
    return rows


def table(chosen):
    from scipy.sparse import csr_matrix

    found = np.load(chosen.features)
    target, tokens, bounds = found["vectors"].astype(np.float32), found["tokens"], found["bounds"]
    size = tokenizer(chosen.tokenizer).get_vocab_size()
    bags = csr_matrix((np.ones(len(tokens), np.float32), tokens, bounds), shape=(len(target), size))
    raw = load_file(f"{chosen.folder}/model.safetensors")
    raw = next(value for name, value in raw.items() if name.endswith("embeddings.word_embeddings.weight"))
    rows = descend(start_from_teacher(bags, target, raw), bags, target, chosen.epochs)
    vectors = unit(np.asarray(bags @ rows))
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    rows = rows @ directions[:, ::-1][:, : chosen.dimensions]
    scale = np.abs(rows).max(1) / 127
    scale[scale == 0] = 1
    codes = np.round(rows / scale[:, None]).astype(np.int8)
    save_file({"embeddings": codes, "scale": scale.astype(np.float32)}, chosen.out)


arguments = argparse.ArgumentParser()
steps = arguments.add_subparsers(required=True)
step = steps.add_parser("features")
for name in ("tokenizer", "teacher", "texts", "out"):
    step.add_argument(name)
step.set_defaults(run=features)
step = steps.add_parser("table")
for name in ("tokenizer", "folder", "features", "out"):
    step.add_argument(name)
step.add_argument("--epochs", type=int, default=12)
step.add_argument("--dimensions", type=int, default=256)
step.set_defaults(run=table)
chosen = arguments.parse_args()
chosen.run(chosen)
