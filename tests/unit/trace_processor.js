// Runs Perfetto's trace processor, the WebAssembly of its UI, outside of a browser: node trace_processor.js FOLDER
// Requests on stdin and replies on stdout: messages TraceProcessorRpcStream, each after its length (4 bytes, little endian).
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];

class FileRequest { // what the worker loads its WebAssembly with
  open(method, name) {
    this.name = path.basename(name);
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name))).buffer;
  }
}

const worker = {
  XMLHttpRequest: FileRequest,
  WorkerGlobalScope: class {},
  location: { href: "file:///engine_bundle.js", protocol: "file:", host: "" },
  console: { log: () => {}, warn: () => {}, error: console.error },
  TextDecoder, URL, crypto, performance, setTimeout,
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
const bytes = vm.runInContext("Uint8Array", worker);

const port = {
  postMessage(reply) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(reply.length);
    fs.writeSync(1, length);
    for (let at = 0; at < reply.length; ) at += fs.writeSync(1, reply, at);
  },
};

function exactly(count) {
  const buffer = Buffer.alloc(count);
  for (let at = 0; at < count; ) {
    const got = fs.readSync(0, buffer, at, count - at, null);
    if (got === 0) process.exit(0);
    at += got;
  }
  return buffer;
}

setImmediate(() => {
  worker.onmessage({ data: port });
  for (;;) port.onmessage({ data: new bytes(exactly(exactly(4).readUInt32LE(0))) });
});
