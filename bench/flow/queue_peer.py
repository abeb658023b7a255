"""Celery with its automatic retries, on Redis.

queue_peer.py URL ITEMS RETRIES PORT    (-1 retries: without end)
"""

import sys
import threading

import requests
from celery import Celery
from celery.signals import task_failure, task_success
from tell import Tally

THREADS = 64
url, items, retries, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
app = Celery("flow", broker=f"redis://127.0.0.1:{port}/0")
app.conf.broker_connection_retry_on_startup = True
own = threading.local()


# Backoff and jitter as documented: 1 s doubling to 600 s, full jitter.
@app.task(
    autoretry_for=(requests.RequestException,),
    retry_backoff=True,
    max_retries=None if retries < 0 else retries,
    ignore_result=True,
)
def call(n):
    if not hasattr(own, "session"):
        own.session = requests.Session()
    own.session.post(url, json={"n": n, "text": "x" * 200}, timeout=60).raise_for_status()


for n in range(items):
    call.delay(n)
tally = Tally(items)


@task_success.connect
def succeeded(**_):
    tally.count(True)


@task_failure.connect
def failed(**_):
    tally.count(False)


app.worker_main(["worker", "--pool=threads", f"--concurrency={THREADS}", "--loglevel=CRITICAL"])
