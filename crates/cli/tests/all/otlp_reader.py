"""Reads bodies of OTLP by the published messages, and fails when one is none of them.

In: a JSON list of {"path", "body"} on standard input. Out: {"spans": […], "points": […]}.
"""

import base64
import json
import re
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def hex_id(raw, digits):
    """OTLP writes ids in hex where the mapping of Protocol Buffers has base64: what was read as base64 is written back."""
    text = base64.b64encode(raw).decode()
    if not re.fullmatch(f"[0-9a-f]{{{digits}}}", text) or set(text) == {"0"}:
        sys.exit(f"{text!r} is no id of {digits} digits")
    return text


def attributes(message):
    found = {}
    for one in message:
        if one.key in found or not one.value.WhichOneof("value"):
            sys.exit(f"attribute {one.key!r} is there twice, or has no value")
        found[one.key] = getattr(one.value, one.value.WhichOneof("value"))
    return found


def spans(request):
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
                    sys.exit(f"span {span.name!r} ends before it begins")
                yield {
                    "trace": hex_id(span.trace_id, 32),
                    "span": hex_id(span.span_id, 16),
                    "parent": hex_id(span.parent_span_id, 16) if span.parent_span_id else None,
                    "name": span.name,
                    "ms": (span.end_time_unix_nano - span.start_time_unix_nano) // 1_000_000,
                    "error": span.status.code == 2,
                    "links": [[hex_id(link.trace_id, 32), hex_id(link.span_id, 16)] for link in span.links],
                    "resource": attributes(resource.resource.attributes),
                    **attributes(span.attributes),
                }


def points(request):
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                if kind != "gauge" and data.aggregation_temporality != 2:
                    sys.exit(f"{metric.name} is not cumulative")
                for point in data.data_points:
                    told = {"name": metric.name, "kind": kind, "labels": attributes(point.attributes)}
                    told["resource"] = attributes(resource.resource.attributes)
                    if kind == "histogram":
                        if len(point.bucket_counts) != len(point.explicit_bounds) + 1:
                            sys.exit(f"{metric.name}: buckets and bounds do not fit")
                        if sum(point.bucket_counts) != point.count:
                            sys.exit(f"{metric.name}: buckets do not add up")
                        told |= {"count": point.count, "sum": point.sum, "buckets": list(point.bucket_counts)}
                        told["bounds"] = list(point.explicit_bounds)
                    else:
                        told["value"] = point.as_double
                    yield told


def main():
    told = {"spans": [], "points": []}
    for one in json.load(sys.stdin):
        if one["path"] == "/v1/traces":
            told["spans"] += spans(json_format.Parse(one["body"], ExportTraceServiceRequest()))
        elif one["path"] == "/v1/metrics":
            told["points"] += points(json_format.Parse(one["body"], ExportMetricsServiceRequest()))
        else:
            sys.exit(f"nothing is sent to {one['path']}")
    json.dump(told, sys.stdout)


main()
