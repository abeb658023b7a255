"""The built-in model in Python: what the Rust code is compared with, and what the other scripts measure."""

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer


def tokenizer(path):
    """The reference tokenizer, without padding, cutting or special tokens."""
    found = Tokenizer.from_file(path)
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True
    return found


class StaticModel:
    """Rows of tokens, summed and brought to length 1."""

    def __init__(self, table, tokenizer_path):
        tensors = load_file(table)
        self.rows = tensors["embeddings"].astype(np.float32) * tensors["scale"][:, None]
        self.tokenizer = tokenizer(tokenizer_path)

    def __call__(self, texts):
        found = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        sums = np.stack([self.rows[one.ids].sum(0) for one in found])
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
