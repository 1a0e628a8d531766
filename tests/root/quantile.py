#!/usr/bin/python3
"""Computes etcd's percentiles from raw metrics, independently of etcd-lun's `health`.

    quantile.py of METRIC SHARE BEFORE AFTER    the quantile of what METRIC's histogram counted between two texts
    quantile.py load URL COUNT                  writes COUNT keys through etcd's JSON gateway

It follows Prometheus' documentation of histogram_quantile and shares no code with the program under test.
"""

import base64
import json
import math
import re
import sys
import urllib.request


def buckets(text, metric):
    """Returns the cumulative counts by upper bound."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(re.escape(metric) + r'_bucket\{le="([^"]+)"\} (\S+)', line)
        if match:
            bound = math.inf if match[1] == "+Inf" else float(match[1])
            found[bound] = float(match[2])
    return found


def quantile(share, counts):
    """Interpolates in the bucket that holds the rank. The last bucket has no end, so its start is returned."""
    bounds = sorted(counts)
    rank = share * counts[math.inf]
    start, below = 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= rank:
            if bound == math.inf:
                return start
            return start + (bound - start) * (rank - below) / (counts[bound] - below)
        start, below = bound, counts[bound]
    raise ValueError("no bucket holds the rank")


def load(url, count):
    """Writes keys one after the other. Each is a write to etcd's log and a sync."""
    for number in range(count):
        key = base64.b64encode(b"key-%d" % number).decode()
        body = json.dumps({"key": key, "value": base64.b64encode(b"x" * 200).decode()}).encode()
        urllib.request.urlopen(url + "/v3/kv/put", data=body, timeout=30).read()


if __name__ == "__main__":
    if sys.argv[1] == "load":
        load(sys.argv[2], int(sys.argv[3]))
    else:
        metric, share, before, after = sys.argv[2:]
        before, after = (buckets(open(path).read(), metric) for path in (before, after))
        print(repr(quantile(float(share), {bound: count - before.get(bound, 0) for bound, count in after.items()})))
