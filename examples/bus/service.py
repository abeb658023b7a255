"""A service over RabbitMQ: hears of items, reads them from `redrive serve`, answers by a queue. Python 3.8, pika of PyPI."""
import json, os, time, urllib.error, urllib.request

import pika

BUS = os.environ["REDRIVE_BUS"]                        # amqp://USER:PASSWORD@HOST:5672/VHOST
URL, TOKEN = os.environ["REDRIVE_URL"], os.environ["REDRIVE_TOKEN"]    # a token of the role viewer
EXCHANGE, EVENT, QUEUE = "redrive.events", "words.requested", "word-counter"

def work(payload):                                     # what becomes of one, in words of the handler protocol
    text = payload.get("text")
    if text is None:
        return {"error": {"class": "final", "message": "there is no text"}}
    return {"output": len(text.split())}

def read(item):                                        # a message is a hint: the content is where it can be purged
    request = urllib.request.Request(f"{URL}/v1/items/{item}/payload", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)

def result_of(item):
    try:
        payload = read(item)
    except urllib.error.HTTPError as refused:
        if refused.status == 404:                      # it was purged, and nobody waits for an answer
            return None
        raise
    try:
        return work(payload)
    except Exception as error:                         # this item's failure, nobody else's
        return {"error": {"class": "retryable", "message": repr(error)}}

def hear(channel, method, properties, body):
    told = json.loads(body)
    result = result_of(told["item"])
    if result is not None:                             # waits for the broker's confirm
        answer = json.dumps({"token": told["token"], "result": result})
        kept = pika.BasicProperties(content_type="application/json", delivery_mode=2)
        channel.basic_publish("", properties.reply_to, answer, kept, mandatory=True)
    # Whoever is killed before this hears of the item again. Redrive takes the first answer and lets the second go; where
    # work must not be done twice either, told["token"] is the name of this attempt to remember.
    channel.basic_ack(method.delivery_tag)

while True:
    try:
        with pika.BlockingConnection(pika.URLParameters(BUS)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.exchange_declare(EXCHANGE, "topic", durable=True)
            channel.queue_declare(QUEUE, durable=True)
            channel.queue_bind(QUEUE, EXCHANGE, EVENT)
            channel.basic_qos(prefetch_count=20)
            channel.basic_consume(QUEUE, hear)
            channel.start_consuming()
    except (pika.exceptions.AMQPError, OSError) as error:
        # The broker or the daemon is not there, and may come back. What was in hand is in the queue again.
        print(repr(error), flush=True)
        time.sleep(1)
