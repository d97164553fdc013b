#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats a profiler trace until it is large: times move on, ids stay distinct.

    python3 bench/make_large_trace.py TRACE.json[.gz] OUT.json SIZE_MB
"""

import gzip
import re
import sys

SHIFTED = {"ts": re.compile(r'("ts":\s*)(\d+)'),
           "id": re.compile(r'("(?:correlation|External id|id)":\s*)(\d+)')}


def main():
    source, target, megabytes = sys.argv[1], sys.argv[2], float(sys.argv[3])
    data = open(source, "rb").read()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    opening = re.search(r'"traceEvents"\s*:\s*\[', text).end()
    closing = text.rindex("]")
    head, events, tail = text[:opening], text[opening:closing].rstrip().rstrip(","), text[closing:]

    stamps = [int(m.group(2)) for m in SHIFTED["ts"].finditer(events) if int(m.group(2)) > 0]
    stamps.sort()
    # Records of the profiler itself stand far before the rest; the middle is where the work is.
    stride = (stamps[-1] - stamps[len(stamps) // 100]) + 1000
    ids = [int(m.group(2)) for m in SHIFTED["id"].finditer(events)]
    id_stride = max(i for i in ids if i < 10 ** 9) + 1

    both = re.compile("|".join(p.pattern for p in SHIFTED.values()))
    texts, numbers, steps, at = [], [], [], 0
    for match in both.finditer(events):
        group = 2 if match.group(2) is not None else 4
        texts.append(events[at:match.start(group)])
        value = int(match.group(group))
        numbers.append(value)
        steps.append(0 if value == 0 else stride if group == 2 else id_stride)
        at = match.end(group)
    rest = events[at:]

    size = len(head)
    with open(target, "w", encoding="utf-8") as out:
        out.write(head)
        copies = 0
        while size < megabytes * 1e6:
            parts = [",\n" if copies else ""]
            for piece, number, step in zip(texts, numbers, steps):
                parts.append(piece)
                parts.append(str(number + copies * step))
            parts.append(rest)
            block = "".join(parts)
            out.write(block)
            size += len(block)
            copies += 1
        out.write(tail)
    print(f"{copies} copies, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
