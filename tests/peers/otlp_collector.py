"""A collector made of OpenTelemetry's own parts: reads the requests of the server with opentelemetry-proto, and compares the
names of attributes with opentelemetry-semantic-conventions. Prints its port, then one line of JSON for each request."""

import gzip
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes, http_attributes, url_attributes
from opentelemetry.semconv.resource import ResourceAttributes

KNOWN = {
    value
    for module in (error_attributes, gen_ai_attributes, http_attributes, url_attributes, ResourceAttributes)
    for value in vars(module).values()
    if isinstance(value, str) and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", value)
}


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        spans, strange = [], []
        for resource in request.resource_spans:
            names = [pair.key for pair in resource.resource.attributes]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    names += [pair.key for pair in span.attributes]
                    attributes = {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}
                    spans.append({
                        "name": span.name,
                        "trace": span.trace_id.hex(),
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "kind": span.kind,
                        "operation": attributes.get("gen_ai.operation.name"),
                        "provider": attributes.get("gen_ai.provider.name"),
                        "isOver": 0 < span.start_time_unix_nano <= span.end_time_unix_nano,
                        "links": [link.span_id.hex() for link in span.links],
                    })
            strange = sorted({name for name in names if name not in KNOWN and not name.startswith("pes.")})
        # What the schema does not know would be gone from it now.
        request.DiscardUnknownFields()
        is_whole = len(request.SerializeToString()) == len(body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        print(json.dumps({"path": self.path, "spans": spans, "strange": strange, "isWhole": is_whole}), flush=True)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
