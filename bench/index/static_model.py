"""The built-in model in numpy, so that every contestant makes the same vectors. Notes each text that it embeds."""

import hashlib
import json
from pathlib import Path

import numpy as np
from tokenizers import BertWordPieceTokenizer

MODEL = Path(__file__).resolve().parents[2] / "crates" / "embed" / "model"


class StaticModel:
    """Rows of tokens, summed and brought to length 1."""

    def __init__(self, log):
        data = (MODEL / "static256.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
        part = lambda name: body[slice(*header[name]["data_offsets"])]  # noqa: E731
        codes = np.frombuffer(part("embeddings"), np.int8).reshape(header["embeddings"]["shape"])
        self.rows = codes.astype(np.float32) * np.frombuffer(part("scale"), np.float32)[:, None]
        self.tokenizer = BertWordPieceTokenizer(str(MODEL / "vocab.txt"), lowercase=True)
        self.log = open(log, "a")  # noqa: SIM115

    def __call__(self, texts):
        found = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        sums = np.stack([self.rows[one.ids].sum(0) for one in found])
        vectors = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        self.log.writelines(hashlib.blake2b(text.encode(), digest_size=8).hexdigest() + "\n" for text in texts)
        self.log.flush()
        return vectors.tolist()


def tell(collection, seconds, places):
    """What is in a Chroma collection, as the last line on standard output."""
    rows, pairs = 0, set()
    while True:
        page = collection.get(include=["documents", "metadatas"], limit=5_000, offset=rows)
        if not page["ids"]:
            break
        rows += len(page["ids"])
        for text, about in zip(page["documents"], page["metadatas"], strict=True):
            pairs.add(hashlib.blake2b(f"{places(about)}\0{text}".encode(), digest_size=12).digest())
    print(json.dumps({"seconds": seconds, "rows": rows, "distinct": len(pairs)}), flush=True)
