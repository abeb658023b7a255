"""An external worker: asks `redrive serve` for work and says what became of it. Python 3.8 or newer, no packages."""
import json, os, threading, time, urllib.error, urllib.request

URL, TOKEN = os.environ["REDRIVE_URL"], os.environ["REDRIVE_TOKEN"]
STAGES = os.environ.get("REDRIVE_STAGES", "mood").split(",")
GOOD = {"good", "great", "love", "excellent"}          # load what you need here, once

def work(item):                                        # what becomes of one, in words of the handler protocol
    text = item["payload"].get("text")
    if text is None:
        return {"error": {"class": "final", "message": "there is no text"}}
    if not text.strip():
        return {"filtered": "the text is empty"}
    words = {word.strip(".,!").lower() for word in text.split()}
    return {"output": {"text": text, "mood": "good" if words & GOOD else "other"}}

def ask(what, **body):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{URL}/v1/work/{what}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)

def keep_alive(claim, done):
    while not done.wait(claim["lease_ms"] / 3000):     # three signs of life in a lease
        try:
            ask("heartbeat", lease=claim["lease"])
        except OSError:
            return                                     # complete says whether it was too late

while True:
    try:
        claim = ask("claim", stages=STAGES, max_items=100, wait_ms=30_000, lease_ms=15_000)
        if not claim["items"]:
            time.sleep(1 if claim["stopping"] else 0)
            continue
        done, results = threading.Event(), []
        threading.Thread(target=keep_alive, args=(claim, done), daemon=True).start()
        for item in claim["items"]:
            try:
                results.append({"id": item["id"], **work(item)})
            except Exception as error:                 # this item's failure, nobody else's
                results.append({"id": item["id"], "error": {"class": "retryable", "message": repr(error)}})
        done.set()
        ask("complete", lease=claim["lease"], results=results)
    except urllib.error.HTTPError as refused:          # 409: too late, and somebody else does it
        print(refused.status, refused.read().decode(), flush=True)
        time.sleep(0 if refused.status == 409 else 5)
    except OSError as error:                           # the daemon is not there: it may come back
        print(error, flush=True)
        time.sleep(1)
