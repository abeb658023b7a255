"""Plays schemathesis against a real `redrive serve`.

    python3 scripts/fuzz_api.py SCHEMATHESIS REDRIVE [SECONDS]

The store is seeded first, so that there is something to be found: runs that ended, one that stands, dead letters, groups, a
gate, operations, an index, and work for external workers. Every check and every phase of schemathesis takes part, with a fixed
seed; a short second round asks as somebody who may only look. It fails for a finding, for a daemon that does not end well, and
for a store that is not in order afterwards.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

TOKEN = "the-token-of-a-run-that-is-thrown-away"
SEED = "20021"
HERE = pathlib.Path(__file__).absolute()
CONFIG = HERE.with_suffix(".toml")
HOOKS = f"{HERE.stem}_hooks"
# How long the round of a viewer takes, in seconds.
SECOND_ROUND = "10"
PIPELINES = {
    "box": '[source]\nkind = "inbox"\nkey = "/id"\n[[stage]]\nname = "pass"\nkind = "pass"\n',
    # Nobody listens at port 9.
    "broken": '[source]\npath = "in.jsonl"\nkey = "/id"\n[run]\nfailure_budget = false\n[[stage]]\nname = "call"\nkind = "http"\n'
    'url = "http://127.0.0.1:9/"\nretry = { preset = "none" }\ngate = "nobody"\n[gate.nobody]\nbreaker = false\n',
    "outside": '[source]\nkind = "inbox"\nkey = "/id"\n[[stage]]\nname = "work"\nkind = "external"\ntimeout = "5s"\n',
}


class Daemon:
    """A daemon in a folder of its own."""

    def __init__(self, program, folder):
        args = [program, "serve", "--listen", "127.0.0.1:0", "--pipelines", "pipelines", "--json"]
        environment = {**os.environ, "REDRIVE_TOKEN": TOKEN, "REDRIVE_LOG": "warn"}
        self.log = open(folder / "serve.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            args, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        self.url = json.loads(self.process.stdout.readline())["listening"]

    def ask(self, path, body=None):
        """Asks, and gives the answer."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def stop(self):
        """Has it stop; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=60)


def seed(program, folder):
    """Fills a store with something of everything, by the commands."""
    (folder / "pipelines").mkdir()
    for name, text in PIPELINES.items():
        (folder / "pipelines" / f"{name}.toml").write_text(f'name = "{name}"\n{text}', encoding="utf-8")
    lines = "".join(json.dumps({"id": f"k{n}", "n": n}) + "\n" for n in range(40))
    (folder / "pipelines" / "in.jsonl").write_text(lines, encoding="utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text("# Bread\n\nFlour, water, salt and time.\n", encoding="utf-8")

    def run(*args, code=0):
        ran = subprocess.run([program, *args, "--json"], cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode != code:
            sys.exit(f"redrive {' '.join(args)} ended with {ran.returncode}: {ran.stderr}")

    run("index", "notes")
    run("run", "pipelines/broken.toml", code=4)
    run("submit", "pipelines/box.toml", *(f'--item={{"id": "b{n}"}}' for n in range(20)))
    run("submit", "pipelines/outside.toml", *(f'--item={{"id": "w{n}"}}' for n in range(200)))
    run("dead", "redrive", "--stage", "call", "--limit", "5")
    return run


def ask_everything(schemathesis, daemon, folder, token, seconds, *more):
    """Plays schemathesis with a token; its exit code."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": os.pathsep.join(paths)}
    played = subprocess.run(
        [
            *(schemathesis, "--config-file", str(CONFIG), "run", daemon.url + "/v1/openapi.json", "--no-color"),
            # Several answers make nothing that could be asked for by a token.
            *("--checks", "all", "--exclude-checks", "ensure_resource_availability"),
            *("--continue-on-failure", "--seed", SEED, "--max-time", seconds),
            *("--request-timeout", "30", "-H", f"Authorization: Bearer {token}", *more),
        ],
        cwd=folder,
        env=environment,
        check=False,
    )
    return played.returncode


def viewer(program, folder):
    """A token of somebody who may only look."""
    args = [program, "token", "create", "vera", "--role", "viewer"]
    made = subprocess.run(args, cwd=folder, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def main():
    schemathesis, program = sys.argv[1], str(pathlib.Path(sys.argv[2]).absolute())
    seconds = sys.argv[3] if len(sys.argv) > 3 else "60"
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        run = seed(program, folder)
        looks = viewer(program, folder)
        daemon = Daemon(program, folder)
        try:
            phases = ("--phases", "examples,coverage,fuzzing,stateful")
            tested = [
                ask_everything(schemathesis, daemon, folder, TOKEN, seconds, *phases),
                ask_everything(schemathesis, daemon, folder, looks, SECOND_ROUND, "--phases", "examples,fuzzing"),
            ]
        finally:
            ended = daemon.stop()
        if any(tested) or ended != 0:
            print((folder / "serve.log").read_text(encoding="utf-8")[-8_000:])
            sys.exit(f"schemathesis ended with {tested}, the daemon with {ended}")
        # Whatever was asked for, every item is accounted for.
        run("check")


main()
