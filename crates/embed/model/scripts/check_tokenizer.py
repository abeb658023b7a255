#!/usr/bin/env python3
"""Compares our tokenizer with the reference (PyPI `tokenizers`), text by text.

    cargo build --release -p redrive-embed --example tokenize
    python check_tokenizer.py TOKENIZER.json PROGRAM [FILE_OR_FOLDER ...] [--fixture OUT.jsonl]

Texts: all lines of the given files, every code point (alone, between letters, before and after marks), and random
mixtures of scripts, marks, controls and spaces. With --fixture a sample is written for the Rust test.
"""

import argparse
import json
import os
import random
import subprocess
import sys

from tokenizers import Tokenizer

SCALARS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
BLOCKS = [(0x20, 0x7F), (0x80, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0x1100, 0x11FF),
          (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x20D0, 0x20FF), (0x2E80, 0x30FF), (0x302A, 0x302F), (0x4E00, 0x4FFF),
          (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFE00, 0xFFFF), (0x1B00, 0x1CFF), (0x1D160, 0x1D17F),
          (0x1F300, 0x1FAFF), (0x11300, 0x1193F), (0x16D00, 0x16FFF)]  # fmt: skip


def reference(path):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # "[CLS]" in a text is text
    return lambda texts: [found.ids for found in tokenizer.encode_batch(texts, add_special_tokens=False)]


def lines_of(paths):
    for path in paths:
        inside = [path] if os.path.isfile(path) else [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
        for name in sorted(inside):
            with open(name, encoding="utf-8", errors="replace") as file:
                yield from (line for line in file)


def every_code_point():
    for code in SCALARS:
        char = chr(code)
        yield f"{char} a{char}b \u302e{char}\u0301 {char}\U0001d165"


def mixtures(count, dice):
    known = ["the", "un", "ing", "##s", "[CLS]", "[UNK]", "straße", "İstanbul", "ﬁ", "naïve", "x" * 99, "東京", "\0", "\r\n"]
    for _ in range(count):
        parts = []
        for _ in range(dice.randint(1, 40)):
            kind = dice.random()
            if kind < 0.3:
                parts.append(dice.choice(known))
            elif kind < 0.4:
                parts.append(chr(dice.choice(SCALARS)))
            else:
                first, last = dice.choice(BLOCKS)
                parts.append("".join(chr(dice.randint(first, last)) for _ in range(dice.randint(1, 4))))
            parts.append(dice.choice(["", "", " "]))
        yield "".join(parts)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("tokenizer")
    arguments.add_argument("program")
    arguments.add_argument("texts", nargs="*")
    arguments.add_argument("--mixtures", type=int, default=200_000)
    arguments.add_argument("--fixture")
    chosen = arguments.parse_args()
    dice = random.Random(4)
    groups = {"files": list(lines_of(chosen.texts)), "code points": list(every_code_point()),
              "mixtures": list(mixtures(chosen.mixtures, dice))}  # fmt: skip
    encode = reference(chosen.tokenizer)
    wrong = 0
    sample = []
    for name, texts in groups.items():
        sent = "".join(json.dumps(text) + "\n" for text in texts)
        ours = subprocess.run([chosen.program], input=sent, capture_output=True, text=True, check=True).stdout
        tokens = differ = 0
        answers = ours.splitlines()
        assert len(answers) == len(texts), name
        for start in range(0, len(texts), 10_000):
            part = texts[start : start + 10_000]
            for text, expected, answer in zip(part, encode(part), answers[start:]):
                tokens += len(expected)
                if json.loads(answer) != expected:
                    differ += 1
                    if differ <= 5:
                        print(f"{name}: {text!r}\n  reference {expected}\n  ours      {answer}")
        wrong += differ
        print(f"{name}: {len(texts)} texts, {sum(map(len, texts))} characters, {tokens} tokens, {differ} differ", flush=True)
        short = [text for text in texts if 0 < len(text) <= 160]
        sample += dice.sample(short, min(len(short), 130))
    if chosen.fixture:
        with open(chosen.fixture, "w", encoding="ascii") as file:
            for text, tokens in zip(sample, encode(sample)):
                file.write(json.dumps({"text": text, "tokens": tokens}) + "\n")
    return 1 if wrong else 0


sys.exit(main())
