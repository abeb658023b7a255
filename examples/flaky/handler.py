#!/usr/bin/env python3
"""A handler that misbehaves on purpose: one JSON line in, one JSON line out, for as long as it is asked.

It guesses the sentiment of a review, and
- fails the first attempt of every fifth review, as a service does that is briefly overloaded,
- turns every seventh away once with a hint, as a service does that asks for less,
- dies under review 13 at its first attempt,
- cannot read reviews in Klingon, until the file `fixed` lies beside it.
"""
import json
import os
import sys

FIXED = os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixed"))
GOOD = {"good", "great", "love", "loved", "excellent", "sturdy", "fast", "happy"}
BAD = {"bad", "broke", "broken", "slow", "awful", "returned", "late", "noisy"}


def said(item):
    payload, attempt = item["payload"], item["attempt"]
    number = payload["id"]
    if number == 13 and attempt == 1:
        sys.exit("segmentation fault, or so it seems")
    if attempt == 1 and number % 5 == 0:
        return {"error": {"class": "retryable", "message": f"the model is overloaded (request {number})"}}
    if attempt == 1 and number % 7 == 0:
        return {"error": {"class": "rate_limited", "message": "too many requests", "retry_after_ms": 800}}
    if payload["lang"] == "tlh" and not FIXED:
        return {"error": {"class": "final", "message": "unsupported language: tlh"}}
    words = {word.strip(".,!").lower() for word in payload["text"].split()}
    score = len(words & GOOD) - len(words & BAD)
    mood = "positive" if score > 0 else "negative" if score < 0 else "neutral"
    return {"output": {"id": number, "text": payload["text"], "mood": mood}}


for line in sys.stdin:
    request = json.loads(line)
    results = [{"id": item["id"], **said(item)} for item in request["items"]]
    print(json.dumps({"results": results}), flush=True)
