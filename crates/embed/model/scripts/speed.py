#!/usr/bin/env python3
"""Measures the Python route on one core, to compare with `cargo run --release --example speed`.

TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 python speed.py TABLE.safetensors TOKENIZER.json TEXTS
"""

import sys
import time

from static_model import StaticModel

model = StaticModel(sys.argv[1], sys.argv[2])
with open(sys.argv[3], encoding="utf-8", errors="replace") as file:
    texts = [line.rstrip("\n") for line in file if line.strip()]
size = sum(len(text.encode()) for text in texts)
best = float("inf")
for _ in range(3):
    start = time.perf_counter()
    for at in range(0, len(texts), 256):
        model(texts[at : at + 256])
    best = min(best, time.perf_counter() - start)
print(f"embed: {len(texts)} texts, {len(texts) / best:.0f} texts/s, {size / best / 1e6:.1f} MB/s")
