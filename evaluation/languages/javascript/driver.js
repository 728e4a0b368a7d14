"use strict";
// Loads answer.js, calls its function once for each line on descriptor 3, and writes one line each on descriptor 4.
// It shares its process with the answer, so nothing that it writes is trusted: it can only report values.
(() => {
  const fs = require("node:fs");
  const vm = require("node:vm");
  const { name, parameters, returns } = SIGNATURE;
  const { stringify, parse } = JSON;
  const { readSync, writeSync } = fs;
  const { from } = Buffer;
  const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0 };
  const LIMIT = 2000;

  class Unfit extends Error {}

  function decode(form, [kind, ...parts]) {
    switch (kind) {
      case "int":
        return Number.isSafeInteger(Number(form)) ? Number(form) : BigInt(form);
      case "float":
        return typeof form === "string" ? SPECIAL[form] : form;
      case "list":
        return form.map((item) => decode(item, parts[0]));
      case "tuple":
        return form.map((item, position) => decode(item, parts[position]));
      case "optional":
        return form === null ? null : decode(form, parts[0]);
      case "dict": {
        const found = {};
        for (const [key, item] of form) {
          const value = decode(item, parts[1]);
          Object.defineProperty(found, decode(key, parts[0]), {
            value,
            writable: true,
            enumerable: true,
            configurable: true,
          });
        }
        return found;
      }
      default:
        return form;
    }
  }

  function unfit(value, kind) {
    throw new Unfit(`${shown(value)} is not ${kind}`);
  }

  function shown(value) {
    try {
      if (typeof value === "number") return String(value); // JSON has no infinity
      const text = typeof value === "bigint" ? `${value}n` : stringify(value);
      return String(text === undefined ? value : text).slice(0, 300);
    } catch {
      return `a ${typeof value}`;
    }
  }

  function encode(value, [kind, ...parts]) {
    switch (kind) {
      case "none":
        return value === null || value === undefined ? null : unfit(value, "null");
      case "bool":
        return typeof value === "boolean" ? value : unfit(value, "a boolean");
      case "str":
        return typeof value === "string" ? value : unfit(value, "a string");
      case "int":
        if (typeof value === "bigint") return String(value);
        return Number.isInteger(value) ? String(BigInt(value)) : unfit(value, "an integer");
      case "float":
        if (typeof value !== "number") return unfit(value, "a number");
        if (Number.isFinite(value)) return Object.is(value, -0) ? "-0" : value;
        return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
      case "list":
        return Array.isArray(value) ? Array.from(value, (item) => encode(item, parts[0])) : unfit(value, "an array");
      case "tuple":
        if (!Array.isArray(value) || value.length !== parts.length) return unfit(value, `an array of ${parts.length}`);
        return parts.map((part, position) => encode(value[position], part));
      case "optional":
        return value === null || value === undefined ? null : encode(value, parts[0]);
      case "dict":
        return entries(value, parts[0]).map(([key, item]) => [encode(key, parts[0]), encode(item, parts[1])]);
    }
  }

  function entries(value, [kind]) {
    if (value instanceof Map) return [...value];
    if (value === null || typeof value !== "object" || Array.isArray(value)) return unfit(value, "an object or a Map");
    const read = { int: Number, float: Number, bool: (key) => ({ true: true, false: false })[key] }[kind];
    return Object.entries(value).map(([key, item]) => [read ? read(key) : key, item]);
  }

  function send(frame) {
    const bytes = from(stringify(frame) + "\n");
    for (let at = 0; at < bytes.length;) at += writeSync(4, bytes, at);
  }

  function described(error) {
    try {
      const summary = error instanceof Error ? `${error.name}: ${error.message}` : `threw ${shown(error)}`;
      const trace = error instanceof Error ? String(error.stack).split(/\n\s+at .*driver\.cjs/)[0] : "";
      return { summary: summary.slice(0, LIMIT), trace: trace.slice(0, LIMIT) };
    } catch {
      return { summary: "an error that cannot be shown", trace: "" };
    }
  }

  function load() {
    let script;
    try {
      script = new vm.Script(prepared(fs.readFileSync("answer.js", "utf8")), { filename: "answer.js" });
    } catch (error) {
      return { failed: described(error), syntax: true };
    }
    try {
      Object.assign(globalThis, { require, module: { exports: {} } });
      globalThis.exports = globalThis.module.exports;
      script.runInThisContext();
      const own = new vm.Script(`typeof ${name} === "function" ? ${name} : undefined`).runInThisContext();
      const exported = globalThis.module?.exports;
      const target = own ?? exported?.[name] ?? exported;
      if (typeof target !== "function") throw new ReferenceError(`the program does not define ${name}`);
      return { target };
    } catch (error) {
      return { failed: described(error), syntax: false };
    }
  }

  function outcome(target, args) {
    let value;
    try {
      value = target(...args);
    } catch (error) {
      return { raised: described(error) };
    }
    try {
      return { result: encode(value, returns) };
    } catch (error) {
      return { bad: error instanceof Unfit ? error.message : described(error).summary };
    }
  }

  function* lines() {
    const chunk = Buffer.alloc(65536);
    let rest = "";
    const decoder = new (require("node:string_decoder").StringDecoder)("utf8");
    for (let size; (size = readSync(3, chunk)) > 0;) {
      const parts = (rest + decoder.write(chunk.subarray(0, size))).split("\n");
      rest = parts.pop();
      yield* parts;
    }
  }

  const { target, ...failure } = load();
  send(target ? { ready: true } : failure);
  if (target) {
    for (const line of lines()) {
      const { id, args } = parse(line);
      send({ id, ...outcome(target, args.map((form, position) => decode(form, parameters[position]))) });
    }
  }
  process.exit(0);
})();
