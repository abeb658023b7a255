#!/usr/bin/env python3
"""House rules that no compiler or linter checks: `./check tidy`.

Each rule is a generator of problems; one problem is enough to fail. Patterns are spelt so that this file passes its
own rules.
"""

import os
import re
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent

MAX_RUST_LINES = 800
# Rust files that may be longer, each with the reason why it holds one idea all the same.
LONG_FILES: dict[str, str] = {}

# The pure crate's only dependencies: no async runtime, clock, randomness or I/O may come in through one.
CORE_DEPENDENCIES = {"blake3", "httpdate", "regex-lite", "serde", "serde_json", "thiserror"}

# Which crates of this workspace a crate may be built on; dependencies point inward and siblings stay apart.
# Dev-dependencies are free: they do not reach the product.
MAY_USE = {
    "core": set(),
    "store": {"core"},
    "sqlite": {"core", "store"},
    "engine": {"core", "store"},
    "pipeline": {"core"},
    "stages": {"core", "store", "engine"},
    "ingest": {"core"},
    "embed": {"core"},
    "mail": {"core", "ingest"},
    "index": {"core", "store", "engine", "ingest", "embed", "mail"},
    "rehearse": {"core", "engine"},
    "operate": {"core", "store", "engine", "pipeline", "ingest", "embed", "mail", "index"},
    "mcp": {"core", "engine", "index", "operate"},
    "server": {"core", "store", "engine", "operate"},
    "rabbitmq": {"core", "engine", "operate"},
    "cli": {
        "core", "store", "sqlite", "engine", "pipeline", "rehearse", "stages", "ingest", "embed", "mail", "index", "operate",
        "mcp", "server", "rabbitmq",
    },
    # Tests only: no other crate's row may name these two.
    "conformance": {"core", "store", "engine", "sim"},
    "sim": {"core", "store", "sqlite", "engine", "conformance"},
}

# Crates whose top-level modules stand in layers, with the edges that still point back, each with the reason.
LAYERED = {
    "engine": {},
    "cli": {},
}
BACK_ENDS = re.compile(r"\bredrive_(?:sqlite|stages)\b")
JSON_BY_HAND = re.compile(r"\bjson!")
# Not over the floor: a provider of its own, which prints what it does as it does it.
OWN_JSON = {"crates/cli/src/commands/rehearse.rs"}

SKIPPED_DIRECTORIES = {".git", ".redrive", ".venv", "__pycache__", "node_modules", "target"}
TEXT_SUFFIXES = {
    "", ".css", ".html", ".js", ".json", ".md", ".py", ".rs", ".sh", ".sql", ".toml", ".ts", ".yaml", ".yml",
}  # fmt: skip
VOCABULARIES = {"tokenizer.json"}

FORBIDDEN_TEXT = [
    (re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b"), "a mark of unfinished work"),
    (re.compile(r"\b(?:tod[o]|unimplemente[d])!"), "a macro that stands for unfinished work"),
    (re.compile(r"#\[(?:cfg_attr\(.*,\s*)?ignore\b"), "a test that is switched off"),
    (re.compile(r"(?<![\w.~})\]-])/(?:work|root)/"), "a path of one machine"),
    (
        re.compile(r"\b(?:crates\.io(?!-index)|pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|deb\.debian\.org)\b"),
        "the host of a package registry; name the package only",
    ),
]

VAGUE_NAMES = {"util", "utils", "common", "helper", "helpers", "manager", "managers"}
MODULE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)")

FENCED_CODE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1[`~]*\s*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINKS = [
    re.compile(r"\]\(\s*<([^>\n]+)>"),
    re.compile(r"\]\(\s*([^\s<>()]+(?:\([^\s()]*\)[^\s()]*)*)"),
    re.compile(r"^ {0,3}\[[^\]\n]+\]:\s*<?([^\s>]+)", re.MULTILINE),
    re.compile(r"\b(?:src|href)=\"([^\"]+)\""),
]


def project_files():
    """All files of the checkout, without build products and state."""
    for folder, directories, names in os.walk(ROOT):
        directories[:] = sorted(set(directories) - SKIPPED_DIRECTORIES)
        for name in sorted(set(names) - {".git"}):  # a file in a linked worktree
            yield Path(folder, name)


def shown(path):
    return path.relative_to(ROOT).as_posix()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def forbidden_text(texts):
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, what in FORBIDDEN_TEXT:
                if found := pattern.search(line):
                    yield f"{shown(path)}:{number}: `{found[0]}` is {what}"


def long_files(texts):
    long = set()
    for path, text in texts.items():
        lines = len(text.splitlines())
        if path.suffix == ".rs" and lines > MAX_RUST_LINES:
            long.add(shown(path))
            if shown(path) not in LONG_FILES:
                yield f"{shown(path)}: {lines} lines; split it, or list it with a reason in scripts/tidy.py"
    for name in sorted(LONG_FILES.keys() - long):
        yield f"scripts/tidy.py: {name} needs no exemption from {MAX_RUST_LINES} lines any more"


def vague_modules(texts):
    for path, text in texts.items():
        if path.suffix != ".rs":
            continue
        inside = path.relative_to(ROOT)
        if vague := VAGUE_NAMES.intersection({inside.stem, *inside.parts[:-1]}):
            yield f"{shown(path)}: name the module after what it does, not `{min(vague)}`"
        for number, line in enumerate(text.splitlines(), 1):
            if (found := MODULE.match(line)) and found[1] in VAGUE_NAMES:
                yield f"{shown(path)}:{number}: name the module after what it does, not `{found[1]}`"


def product_dependencies(manifest, workspace):
    """The packages that a crate's product is built with, under their own names."""
    tables = [manifest, *manifest.get("target", {}).values()]
    for table in tables:
        for kind in ("dependencies", "build-dependencies"):
            for name, wanted in table.get(kind, {}).items():
                if isinstance(wanted, dict) and wanted.get("workspace"):
                    wanted = workspace.get(name)
                yield wanted.get("package", name) if isinstance(wanted, dict) else name


def crate_directions(texts):
    root_manifest = tomllib.loads(texts[ROOT / "Cargo.toml"])
    workspace = root_manifest["workspace"].get("dependencies", {})
    for path, text in texts.items():
        if path.name != "Cargo.toml" or path.parent.parent != ROOT / "crates":
            continue
        crate = path.parent.name
        dependencies = set(product_dependencies(tomllib.loads(text), workspace))
        siblings = {name.removeprefix("redrive-") for name in dependencies if name.startswith("redrive-")}
        if crate not in MAY_USE:
            yield f"{shown(path)}: say in scripts/tidy.py which crates `{crate}` may use"
            continue
        for name in sorted(siblings - MAY_USE[crate]):
            yield f"{shown(path)}: `{crate}` may not be built on `{name}`"
        if crate == "core":
            for name in sorted(dependencies - CORE_DEPENDENCIES):
                yield f"{shown(path)}: `core` may not depend on {name}"


def commands_over_the_floor(texts):
    """Commands turn arguments into requests and answers into words: back ends and hand-made JSON are elsewhere."""
    for path, text in texts.items():
        name = shown(path)
        if path.suffix != ".rs" or not name.startswith("crates/cli/src/commands/"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if found := BACK_ENDS.search(line):
                yield f"{name}:{number}: `{found[0]}` is named in crates/cli/src/wiring only"
            if JSON_BY_HAND.search(line) and name not in OWN_JSON:
                yield f"{name}:{number}: answers serialise; no JSON by hand here"


def module_edges(texts, crate):
    """Which top-level modules of a crate name which others of it, without the root and tests."""
    source = ROOT / "crates" / crate / "src"
    files = [path for path in texts if path.suffix == ".rs" and path.is_relative_to(source)]
    parts = {path: path.relative_to(source).parts[0].removesuffix(".rs") for path in files}
    modules = set(parts.values()) - {"lib", "main"}
    edges = set()
    for path in files:
        product = texts[path].partition("#[cfg(test)]")[0]
        for group in re.findall(r"\bcrate::(\w+|\{[^;]*?\})", product):
            edges |= {(parts[path], name) for name in re.findall(r"(?:^|[{,]\s*)(\w+)", group)}
    return {(a, b) for a, b in edges if a in modules and b in modules and a != b}


def module_cycles(texts):
    for crate, tolerated in LAYERED.items():
        edges = module_edges(texts, crate)
        for edge in sorted(tolerated.keys() - edges):
            yield f"scripts/tidy.py: {crate} has no edge {edge[0]} -> {edge[1]} any more; tolerate it no longer"
        left = edges - tolerated.keys()
        # A module that names no other one, or is named by none, is in no cycle.
        while left != (kept := {(a, b) for a, b in left if b in {x for x, _ in left} and a in {y for _, y in left}}):
            left = kept
        if left:
            yield f"crates/{crate}: modules name each other in a circle: {', '.join(f'{a} -> {b}' for a, b in sorted(left))}"


def broken_links(texts):
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])

    for path, text in texts.items():
        if path.suffix != ".md":
            continue
        prose = INLINE_CODE.sub(blank, FENCED_CODE.sub(blank, text))
        for pattern in LINKS:
            for found in pattern.finditer(prose):
                target = unquote(found[1].partition("#")[0].partition("?")[0])
                if not target or re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", target):
                    continue
                linked = (path.parent / target).resolve()
                if not (linked.is_relative_to(ROOT) and linked.exists()):
                    yield f"{shown(path)}:{line_of(prose, found.start(1))}: broken link to {found[1]}"


def main():
    texts = {}
    for path in project_files():
        if path.suffix in TEXT_SUFFIXES and path.name not in VOCABULARIES:
            try:
                texts[path] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # a binary file without a suffix
    rules = [
        forbidden_text,
        long_files,
        vague_modules,
        crate_directions,
        commands_over_the_floor,
        module_cycles,
        broken_links,
    ]
    problems = [problem for rule in rules for problem in rule(texts)]
    for problem in problems:
        print(problem)
    print(f"tidy: {len(problems)} problems in {len(texts)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
