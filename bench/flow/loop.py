"""The loop that people write: worker threads, and tenacity's backoff around an HTTP call.

loop.py URL ITEMS ATTEMPTS    (0 attempts: without end)
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import requests
from tell import Tally
from tenacity import RetryError, retry, stop_after_attempt, wait_random_exponential

THREADS = 64
url, items, attempts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
own = threading.local()

if attempts:
    # The recipe of OpenAI's cookbook.
    patient = retry(wait=wait_random_exponential(min=1, max=60), stop=stop_after_attempt(attempts))
else:
    # The recipe of tenacity's documentation.
    patient = retry(wait=wait_random_exponential(multiplier=1, max=60))


@patient
def call(n):
    if not hasattr(own, "session"):
        own.session = requests.Session()
    own.session.post(url, json={"n": n, "text": "x" * 200}, timeout=60).raise_for_status()


tally = Tally(items)


def work(n):
    try:
        call(n)
        tally.count(True)
    except RetryError:
        tally.count(False)


with ThreadPoolExecutor(THREADS) as pool:
    for n in range(items):
        pool.submit(work, n)
