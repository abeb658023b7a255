#!/usr/bin/env python3
"""Threads of mail archives by Python's own reader and an independent implementation of https://www.jwz.org/doc/threading.html.

    jwz.py DIR [--merge-subjects]

prints {"groups": [[message ids], ...], "pieces": n} for the archives below DIR. Messages are taken in the order of date and name. Roots of one
subject are joined only where one of them says that it is an answer; --merge-subjects joins them all, as jwz does.
"""

import email.policy
import email.utils
import gzip
import json
import mailbox
import re
import sys
import tempfile
from email.parser import BytesParser
from pathlib import Path

ID = re.compile(r"<([^<>]+)>")


def messages(root):
    parser = BytesParser(policy=email.policy.compat32)
    for path in sorted(root.iterdir()):
        if path.name.endswith(".gz"):
            with tempfile.NamedTemporaryFile() as unpacked:
                unpacked.write(gzip.decompress(path.read_bytes()))
                unpacked.flush()
                box = mailbox.mbox(unpacked.name, create=False)
                yield from [parser.parsebytes(box.get_bytes(key)) for key in box.keys()]
        elif path.is_file():
            box = mailbox.mbox(path, create=False)
            yield from (parser.parsebytes(box.get_bytes(key)) for key in box.keys())
        else:
            box = mailbox.Maildir(path, create=False)
            yield from (parser.parsebytes(box.get_bytes(key)) for key in sorted(box.keys()))


def ids(text):
    return ["".join(one.split()) for one in ID.findall(str(text or "")) if one.strip()]


def when(message):
    try:
        return int(email.utils.parsedate_to_datetime(str(message["Date"])).timestamp())
    except (TypeError, ValueError):
        return sys.maxsize


class Container:
    def __init__(self, name):
        self.name, self.message, self.parent, self.children = name, None, None, []

    def is_below(self, other):
        at = self
        while at is not None:
            if at is other:
                return True
            at = at.parent
        return False


def link(parent, child, override):
    if child.parent is not None and not override:
        return
    if parent.is_below(child):
        return
    if child.parent is not None:
        child.parent.children.remove(child)
    child.parent = parent
    parent.children.append(child)


def subject_of(text):
    text, is_answer = " ".join(str(text or "").split()), False
    while found := re.match(r"(?i)re(\[\d+\])?:\s*", text):
        text, is_answer = text[found.end() :], True
    return text.lower(), is_answer


def threads(found, merge):
    table = {}
    for message in found:
        own = table.setdefault(message["id"], Container(message["id"]))
        own.message = message
        before = None
        for name in message["references"]:
            container = table.setdefault(name, Container(name))
            if before is not None:
                link(before, container, False)
            before = container
        if before is not None:
            link(before, own, True)
    roots = [one for one in table.values() if one.parent is None]
    return by_subject(roots, merge)


def members(container):
    found, open_ = [], [container]
    while open_:
        at = open_.pop()
        if at.message:
            found.append(at.message)
        open_.extend(at.children)
    return sorted(found, key=lambda one: (one["at"], one["id"]))


def by_subject(roots, merge):
    sets = [(members(root), root) for root in roots]
    sets = sorted((one for one in sets if one[0]), key=lambda one: (one[0][0]["at"], one[0][0]["id"]))
    homes = {}
    for found, root in sets:
        base, is_answer = subject_of(found[0]["subject"])
        if base and (base not in homes or (homes[base][1] and not is_answer)):
            homes[base] = (root, is_answer)
    groups = {}
    for found, root in sets:
        base, is_answer = subject_of(found[0]["subject"])
        home = homes[base][0] if base and (is_answer or merge) else root
        groups.setdefault(id(home), []).extend(one["id"] for one in found)
    return [sorted(group) for group in groups.values()]


def main():
    root = Path(sys.argv[1])
    found, pieces = {}, 0
    for message in messages(root):
        pieces += 1
        name = next(iter(ids(message["Message-ID"])), None)
        if name is None:
            continue
        references = ids(message["References"])
        answered = ids(message["In-Reply-To"])[:1]
        references += [one for one in answered if one not in references]
        one = {"id": name, "references": references, "subject": message["Subject"], "at": when(message)}
        found.setdefault(name, one)
    ordered = sorted(found.values(), key=lambda one: (one["at"], one["id"]))
    groups = sorted(threads(ordered, "--merge-subjects" in sys.argv))
    json.dump({"groups": groups, "pieces": pieces}, sys.stdout)


if __name__ == "__main__":
    main()
