"""Three Python queues on SQLite, no-op work, one process, one item at a time (none of them has batches).

python3 -m venv /tmp/peers && /tmp/peers/bin/pip install huey litequeue persist-queue
/tmp/peers/bin/python bench/peers.py [FILE.json] [FOLDER]
"""

import json
import os
import sqlite3
import sys
import tempfile
import time

import huey
import litequeue
import persistqueue

N = 2000
PAYLOAD = "x" * 200


def rate(work):
    begun = time.perf_counter()
    work()
    return round(N / (time.perf_counter() - begun))


def lite(folder, synchronous):
    queue = litequeue.LiteQueue(os.path.join(folder, f"lite-{synchronous}.db"))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")

    def drain():
        while (message := queue.pop()) is not None:
            queue.done(message.message_id)

    return rate(lambda: [queue.put(PAYLOAD) for _ in range(N)]), rate(drain)


def with_huey(folder, fsync):
    queue = huey.SqliteHuey(filename=os.path.join(folder, f"huey-{fsync}.db"), fsync=fsync, results=False)

    @queue.task()
    def nothing(_payload):
        return None

    def drain():
        while (task := queue.dequeue()) is not None:
            queue.execute(task)

    return rate(lambda: [nothing(PAYLOAD) for _ in range(N)]), rate(drain)


def persist(folder):
    queue = persistqueue.SQLiteAckQueue(os.path.join(folder, "persist"), auto_commit=True)

    def drain():
        for _ in range(N):
            queue.ack(queue.get(block=False))

    return rate(lambda: [queue.put(PAYLOAD) for _ in range(N)]), rate(drain)


def main():
    folder = tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None)
    found = []
    for name, durability, history, work in [
        ("litequeue 0.9", "NORMAL (its default)", "keeps the row", lambda: lite(folder, "NORMAL")),
        ("litequeue 0.9", "FULL (set from outside)", "keeps the row", lambda: lite(folder, "FULL")),
        ("huey 3.5", "its default", "deletes on take: lost in a crash", lambda: with_huey(folder, None)),
        ("huey 3.5", "fsync=True", "deletes on take: lost in a crash", lambda: with_huey(folder, True)),
        ("persist-queue 1.1", "its default", "keeps the row until cleared", lambda: persist(folder)),
    ]:
        put, drain = work()
        found.append({"peer": name, "durability": durability, "history": history, "put_per_s": put, "drain_per_s": drain})
        print(f"{name:18} {durability:24} put {put:>7}/s  drain {drain:>7}/s  {history}", flush=True)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            json.dump({"items": N, "payload": 200, "python": sys.version.split()[0], "sqlite": sqlite3.sqlite_version, "peers": found}, file, indent=2)
            file.write("\n")


main()
