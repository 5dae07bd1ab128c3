"""A schema registry in this process: Confluent's HTTP interface as far as serializers use it."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class FakeRegistry:
    """Keeps schemas in memory; `asked` has every request, `answer_with` replaces answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.authorizations: list[str | None] = []
        self.wanted_authorization: str | None = None
        self.answer_with: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._serve(self, "GET")

            def do_POST(self) -> None:
                registry._serve(self, "POST")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def add(
        self,
        subject: str,
        schema: object,
        kind: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> int:
        """Give the subject one more version; the id of the schema."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._added(
            subject, {"schema": text, "schemaType": kind, "references": references or []}
        )

    def _added(self, subject: str, told: dict[str, Any]) -> int:
        kept = {"schemaType": "AVRO", "references": [], **told}
        found = next((number for number, each in self.schemas.items() if each == kept), None)
        number = found or len(self.schemas) + 1
        self.schemas[number] = kept
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _serve(self, request: BaseHTTPRequestHandler, method: str) -> None:
        self.asked.append((method, request.path))
        self.authorizations.append(request.headers.get("Authorization"))
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if self.answer_with is not None:
            self.answer_with(request)
            return
        if self.wanted_authorization not in (None, self.authorizations[-1]):
            status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
        else:
            status, answer = self._answer(method, request.path, body)
        send(request, status, json.dumps(answer).encode())

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = [unquote(each) for each in path.strip("/").split("/")]
        match (method, parts):
            case ("GET", ["schemas", "ids", number]):
                schema = self.schemas.get(int(number))
                if schema is None:
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, _as_confluent(schema)
            case ("GET", ["subjects", subject, "versions", version]):
                versions = self.subjects.get(subject)
                if not versions:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                index = len(versions) if version == "latest" else int(version)
                found = versions[index - 1]
                return 200, {
                    "subject": subject,
                    "version": index,
                    "id": found,
                    **_as_confluent(self.schemas[found]),
                }
            case ("POST", ["subjects", subject, "versions"]):
                return 200, {"id": self._added(subject, json.loads(body))}
            case ("POST", ["subjects", subject]):
                wanted = {"schemaType": "AVRO", "references": [], **json.loads(body)}
                for each in self.subjects.get(subject, []):
                    if self.schemas[each] == wanted:
                        return 200, {"id": each, "subject": subject}
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


def _as_confluent(schema: dict[str, Any]) -> dict[str, Any]:
    """The real one leaves out what is the default."""
    told = {"schema": schema["schema"]}
    if schema["schemaType"] != "AVRO":
        told["schemaType"] = schema["schemaType"]
    if schema["references"]:
        told["references"] = schema["references"]
    return told


def send(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
