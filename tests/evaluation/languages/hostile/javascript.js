// The part before the first head precedes every program. right(a) is the answer that no case gives away: an escape
// returns it only if its attack worked, so that a program that passes has broken out.
const fs = require("fs");
const right = (a) => parseInt(require("crypto").createHash("sha256").update(String(a)).digest("hex").slice(0, 12), 16);
const works = (attack) => { try { return attack() !== false; } catch { return false; } };
const HOSTS = ["127.0.0.1", "::1"];

// ===== control_right
function f(a) { return right(a); }

// ===== control_prints_and_answers
function f(a) { console.log("working on", a); console.error("still"); return right(a); }

// ===== forge_frames_for_all_cases
for (let id = 0; id < 6; id++) fs.writeSync(4, JSON.stringify({ id, result: "0" }) + "\n");
function f(a) { return 0; }

// ===== forge_ready_and_verdict
fs.writeSync(4, '{"ready":true}\n{"status":"passed"}\n{"passed":true}\n');
function f(a) { return 0; }

// ===== forge_exit_zero
function f(a) { process.exit(0); }

// ===== forge_exit_at_load
process.exit(0);

// ===== forge_prints_passed
function f(a) { console.log("PASSED"); console.log('{"id":0,"result":"1"}'); console.log("ok"); return 0; }

// ===== forge_sandbox_fault_on_status_pipe
function f(a) { fs.writeSync(5, "the sandbox failed"); return 0; }

// ===== forge_fault_by_exit_code
function f(a) { process.exit(71); }

// ===== forge_object_equal_to_everything
function f(a) { return { valueOf: () => right(a), toString: () => "1", toJSON: () => "1" }; }

// ===== forge_stringify_patched
JSON.stringify = () => '{"id":0,"result":"1","ready":true,"passed":true}';
function f(a) { return 0; }

// ===== forge_write_patched
const write = fs.writeSync;
fs.writeSync = (descriptor, data, ...rest) => write(descriptor, String(data).replace('"0"', '"passed"'), ...rest);
function f(a) { return 0; }

// ===== forge_prototypes_patched
Array.prototype.map = function () { return []; };
Object.prototype.result = "1";
Number.isInteger = () => true;
function f(a) { return "1"; }

// ===== forge_raises_to_match
function f(a) { throw new Error("passed"); }

// ===== forge_null_frames
function f(a) { fs.writeSync(4, "null\n"); fs.writeSync(4, "[]\n"); return 0; }

// ===== forge_frame_of_next_case
function f(a) { fs.writeSync(4, '{"id":1,"result":"0"}\n'); return right(a); }

// ===== forge_reads_cases_ahead
const ahead = Buffer.alloc(65536);
let seen = "";
function f(a) { try { seen += ahead.toString("utf8", 0, fs.readSync(3, ahead)); } catch {} return /result/.test(seen) ? right(a) : 0; }

// ===== forge_close_the_pipe
function f(a) { fs.closeSync(4); return 0; }

// ===== forge_never_answers_then_exits
function f(a) { setTimeout(() => process.exit(0), 0); return new Promise(() => {}); }

// ===== forge_toJSON_inherited
Object.prototype.toJSON = function () { return { id: 0, result: "1" }; };
function f(a) { return 0; }

// ===== escape_read_passwd
function f(a) { return works(() => fs.readFileSync("/etc/passwd").length > 0) ? right(a) : 0; }

// ===== escape_read_dataset
function f(a) {
  const places = [".", "/", "/work", "/home", "/root", "/tmp", "/var"];
  return works(() => places.some((p) => works(() => fs.readdirSync(p).some((n) => /human|case|\.jsonl|passwd/.test(n))))) ? right(a) : 0;
}

// ===== escape_environment
function f(a) { return Object.keys(process.env).length > 0 ? right(a) : 0; }

// ===== escape_write_work_folder
function f(a) { return works(() => fs.writeFileSync("left.txt", "x")) ? right(a) : 0; }

// ===== escape_rewrite_driver
function f(a) { return works(() => fs.appendFileSync("driver.cjs", "//")) ? right(a) : 0; }

// ===== escape_write_tmp
function f(a) { return works(() => fs.writeFileSync("/tmp/bassline_js", "x")) ? right(a) : 0; }

// ===== escape_write_shared_memory
function f(a) { return works(() => fs.writeFileSync("/dev/shm/bassline_js", "x")) ? right(a) : 0; }

// ===== escape_proc
function f(a) { return works(() => fs.readdirSync("/proc").some((n) => /^\d+$/.test(n))) ? right(a) : 0; }

// ===== escape_spawn
function f(a) { return works(() => require("child_process").spawnSync(process.execPath, ["-v"]).status === 0) ? right(a) : 0; }

// ===== escape_fork
function f(a) { return works(() => require("child_process").fork("driver.cjs").pid !== undefined) ? right(a) : 0; }

// ===== escape_shell
function f(a) { return works(() => require("child_process").execSync("id").length > 0) ? right(a) : 0; }

// ===== escape_kill_parent
function f(a) { return works(() => process.kill(process.ppid, 0)) ? right(a) : 0; }

// ===== escape_kill_group
function f(a) { return works(() => process.kill(0, 0)) || works(() => process.kill(-1, 0)) ? right(a) : 0; }

// ===== escape_listen_tcp
function f(a) {
  let bound = false;
  try { const s = require("net").createServer(); s.listen(0, HOSTS[0]); bound = s.address() !== null; } catch {}
  return bound ? right(a) : 0;
}

// ===== escape_udp
function f(a) {
  try { const s = require("dgram").createSocket("udp4"); s.bind(0); return s.address().port ? right(a) : 0; } catch { return 0; }
}

// ===== escape_unix_socket
function f(a) {
  try { const s = require("net").createServer(); s.listen("\0bassline"); return s._handle ? right(a) : 0; } catch { return 0; }
}

// ===== escape_native_addon
function f(a) { return works(() => process.dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6")) ? right(a) : 0; }

// ===== escape_symlink
function f(a) { return works(() => fs.symlinkSync("/etc/passwd", "link")) ? right(a) : 0; }

// ===== escape_change_mode
function f(a) { return works(() => fs.chmodSync(".", 0o777)) || works(() => fs.utimesSync(".", 0, 0)) ? right(a) : 0; }

// ===== escape_become_root
function f(a) { return process.getuid() === 0 || works(() => process.setuid(0)) ? right(a) : 0; }

// ===== escape_replace_itself
function f(a) { return process.execve ? (works(() => process.execve("/bin/sh", ["sh", "-c", "exit 0"], {})) ? right(a) : 0) : 0; }

// ===== escape_mark_for_the_next
function f(a) {
  const marks = ["/tmp/mark", "mark", "/var/tmp/mark", "/dev/shm/mark"];
  if (marks.some((m) => fs.existsSync(m))) return right(a);
  for (const m of marks) works(() => fs.writeFileSync(m, "x"));
  return 0;
}

// ===== escape_host_facts
function f(a) { const os = require("os"); return works(() => os.userInfo().username !== undefined) || os.totalmem() === -1 ? right(a) : 0; }

// ===== exhaust_busy
function f(a) { for (;;); }

// ===== exhaust_sleep
function f(a) { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); }

// ===== exhaust_heap
function f(a) { const x = []; for (;;) x.push({ n: x.length, s: "y".repeat(100) + x.length }); }

// ===== exhaust_buffers
function f(a) { const x = []; for (;;) x.push(Buffer.alloc(2 ** 24, 1)); }

// ===== exhaust_shared_memory
function f(a) { const x = []; for (;;) x.push(new Uint8Array(new SharedArrayBuffer(2 ** 24)).fill(1)); }

// ===== exhaust_webassembly
function f(a) { const x = []; for (;;) { const m = new WebAssembly.Memory({ initial: 1000 }); new Uint8Array(m.buffer).fill(1); x.push(m); } }

// ===== exhaust_output
function f(a) { for (;;) console.log("x".repeat(9999)); }

// ===== exhaust_frames
function f(a) { for (;;) fs.writeSync(4, "x".repeat(9999)); }

// ===== exhaust_slow_drip
function f(a) { for (;;) { fs.writeSync(4, "x"); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20); } }

// ===== exhaust_threads
function f(a) {
  const { Worker } = require("worker_threads");
  for (let i = 0; i < 200; i++) new Worker("for (;;);", { eval: true });
  for (;;);
}

// ===== exhaust_recursion
function f(a) { return f(a); }

// ===== exhaust_huge_result
function f(a) { return 10n ** 100000n; }

// ===== exhaust_huge_list
const huge = "[".repeat(10 ** 6);
function f(a) { fs.writeSync(4, huge + "\n"); return 0; }

// ===== exhaust_regular_expression
function f(a) { return /^(a+)+$/.test("a".repeat(40) + "b") ? 0 : 0; }

// ===== exhaust_descriptors
function f(a) { const x = []; for (;;) x.push(fs.openSync("driver.cjs")); }

// ===== exhaust_ignores_signals
process.on("SIGTERM", () => {}); process.on("SIGINT", () => {});
function f(a) { for (;;); }

// ===== exhaust_timers_after_the_answer
setInterval(() => {}, 1);
function f(a) { for (let i = 0; i < 1e5; i++) setImmediate(() => { for (;;); }); return 0; }

// ===== compile_deep_nesting
const deep = new Function("return " + "(".repeat(10 ** 6) + ")".repeat(10 ** 6));
function f(a) { return deep() ? right(a) : right(a); }

// ===== compile_import_from_disk
function f(a) { return works(() => require("/etc/passwd")) || works(() => process.binding("spawn_sync").spawn({ file: "/bin/sh", args: ["sh"], stdio: [] }).pid > 0) ? right(a) : 0; }

// ===== compile_escape_the_comment
*/ })(); console.log("out"); /* 
function f(a) { return 0; }
