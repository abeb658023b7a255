#!/usr/bin/env python3
"""Asks the reference tokenizer what it does with every code point, and writes `src/wordpiece/classes.rs`.

    python unicode_classes.py > ../../src/wordpiece/classes.rs

The reference was built with Unicode tables of its own age. Reading them off its behaviour, instead of taking a newer
Unicode database, is what makes our tokenizer give the same ids.
"""

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

CLEAN = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
STRIP = BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
SPLIT = BertPreTokenizer()


def removed(char):
    return CLEAN.normalize_str(char) == ""


def mark(char):
    return STRIP.normalize_str(char) == ""


def moves(char):
    """Whether a character is taken apart or changes places with marks (classes 224 and 216) beside it."""
    if mark(char):
        return False
    pairs = [f"{char}\u302e", f"\u302e{char}", f"{char}\U0001d165", f"\U0001d165{char}"]
    return any(STRIP.normalize_str(text) != text for text in [char, *pairs])


def punctuation(char):
    return len(SPLIT.pre_tokenize_str(f"a{char}a")) == 3


def ranges(belongs):
    """The code points of a class, as closed ranges."""
    found = []
    for code in range(0x80, 0x110000):
        if 0xD800 <= code < 0xE000 or not belongs(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, what, belongs):
    found = ranges(belongs)
    print(f"\n/// {what}\n#[rustfmt::skip]")
    print(f"pub(super) const {name}: [(u32, u32); {len(found)}] = [")
    line = "   "
    for first, last in found:
        entry = f" ({first:#x}, {last:#x}),"
        if len(line) + len(entry) > 110:
            print(line)
            line = "   "
        line += entry
    print(line)
    print("];")


print("//! Classes of characters above ASCII, as closed ranges: written by `model/scripts/unicode_classes.py`, not by hand.")
table("REMOVED", "Dropped when a text is cleaned: control, format and private characters.", removed)
table("MARKS", "Dropped after decomposition: accents and other marks without a width.", mark)
table("MOVING", "Taken apart, or put in order with marks beside them; all but these and marks stay as they are.", moves)
table("PUNCTUATION", "Each a word of its own.", punctuation)
