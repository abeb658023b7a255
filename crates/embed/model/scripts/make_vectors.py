#!/usr/bin/env python3
"""Writes texts with the vectors that the Python model gives them, for the Rust test.

python make_vectors.py TABLE.safetensors TOKENIZER.json TOKENS.jsonl > ../../tests/data/vectors.jsonl
"""

import base64
import json
import sys

from static_model import StaticModel

table, tokenizer, tokens = sys.argv[1:]
with open(tokens, encoding="ascii") as file:
    texts = [json.loads(line) for line in file]
# Texts with at least one known word; [UNK] is token 100.
texts = [entry["text"] for entry in texts if set(entry["tokens"]) - {100}]
chosen = texts[:: max(1, len(texts) // 30)]
chosen.append("retry with backoff " * 400)
for text, vector in zip(chosen, StaticModel(table, tokenizer)(chosen)):
    print(json.dumps({"text": text, "vector": base64.b64encode(vector.astype("<f4").tobytes()).decode()}))
