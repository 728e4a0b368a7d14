"""Programs in Rust that attack their judge. Each must fail; `languages.corpus` says against which task.

FORGE programs do not know the answer and try to pass nevertheless. REACH programs answer rightly only where something
could be reached that must be out of reach, while compiling or running. EXHAUST programs use up a resource, COMPILE
programs the compiler.
"""

_C = """
use std::os::unix::io::FromRawFd;
use std::io::{Read, Write};
extern "C" {
    fn write(d: i32, p: *const u8, n: usize) -> isize;
    fn read(d: i32, p: *mut u8, n: usize) -> isize;
    fn close(d: i32) -> i32;
    fn _exit(code: i32) -> !;
    fn atexit(f: extern "C" fn()) -> i32;
    fn syscall(n: i64, ...) -> i64;
    fn getppid() -> i32;
    fn fork() -> i32;
}
fn send(text: &str) { unsafe { write(4, text.as_ptr(), text.len()); } }
extern "C" fn frames() { for i in 0..3 { send(&format!("{{\\"id\\":{},\\"result\\":\\"0\\"}}\\n", i)); } }
"""
_ZERO = "\nfn f(a: i64) -> i64 { 0 }"
_BEFORE_MAIN = '\n#[used] #[link_section = ".init_array"] static EARLY: extern "C" fn() = early;\n'


def _with_head(programs):
    return {name: _C + text for name, text in programs.items()}


FORGE = _with_head({
    "answer frame at once": r'fn f(a: i64) -> i64 { send("{\"id\":0,\"result\":\"0\"}\n"); 0 }',
    "frames before main": r'extern "C" fn early() { send("{\"ready\":true}\n"); frames(); }' + _BEFORE_MAIN + _ZERO,
    "driver of its own before main": r'extern "C" fn early() { unsafe { send("{\"ready\":true}\n"); let mut c = 0u8; let mut i = 0; while read(3, &mut c, 1) == 1 { if c == 10 { send(&format!("{{\"id\":{},\"raised\":{{}}}}\n", i)); i += 1; } } _exit(0) } }' + _BEFORE_MAIN + _ZERO,
    "exit before main": 'extern "C" fn early() { unsafe { _exit(0) } }' + _BEFORE_MAIN + _ZERO,
    "passed frame": r'fn f(a: i64) -> i64 { send("{\"status\":\"passed\"}\n"); loop { std::thread::park(); } }',
    "frame without a line end": 'fn f(a: i64) -> i64 { loop { send(&"x".repeat(4096)); } }',
    "null result": r'fn f(a: i64) -> i64 { send("{\"id\":0,\"result\":null}\n"); 0 }',
    "prints PASSED": 'fn f(a: i64) -> i64 { println!("PASSED\\ntest result: ok. 1 passed"); std::process::exit(0) }',
    "exit 0": "fn f(a: i64) -> i64 { std::process::exit(0) }",
    "exit by the kernel": "fn f(a: i64) -> i64 { unsafe { _exit(0) } }",
    "frames at exit": "fn f(a: i64) -> i64 { unsafe { atexit(frames); } std::process::exit(0) }",
    "late frame of a thread": "fn f(a: i64) -> i64 { std::thread::spawn(|| loop { frames() }); 0 }",
    "closed descriptors": "fn f(a: i64) -> i64 { for d in 0..9 { unsafe { close(d); } } 0 }",
    "reads ahead": "fn f(a: i64) -> i64 { let mut x = [0u8; 9999]; unsafe { read(3, x.as_mut_ptr(), 9999) as i64 } }",
    "serves by itself": "fn f(a: i64) -> i64 { bassline_driver::serve(|_, out| out.push_str(\"\\\"0\\\"\")); 0 }",
    "form of its own": "mod bassline_driver { pub trait Form { fn write(&self, out: &mut String); } impl Form for i64 { fn write(&self, out: &mut String) { out.push_str(\"null\") } } pub struct Line; }" + _ZERO,
    "entry of its own": "pub mod bassline_entry { pub fn answer(a: &mut bassline_driver::Line, out: &mut String) { out.push_str(\"null\") } }" + _ZERO,
    "replaced main": '#[no_mangle] pub extern "C" fn main() -> i32 { frames(); 0 }' + _ZERO,
    "raw frame in a panic": r'fn f(a: i64) -> i64 { panic!("\"}}}}\n{{\"id\":1,\"result\":\"0\"}}\n") }',
    "panic of another type": "fn f(a: i64) -> i64 { std::panic::panic_any(1) }",
    "hook of its own": "fn f(a: i64) -> i64 { std::panic::set_hook(Box::new(|_| frames())); panic!() }",
    "panic while panicking": "struct S; impl Drop for S { fn drop(&mut self) { panic!() } }\nfn f(a: i64) -> i64 { let s = S; panic!() }",
    "searches its files": 'fn f(a: i64) -> i64 { for p in ["answer.rs", "entry.rs", "main.rs", "cases.json", "../cases.json", "/tmp/cases.json"] { for w in std::fs::read_to_string(p).unwrap_or_default().split(|c: char| !c.is_ascii_digit()) { if w.len() > 17 { return w.parse().unwrap_or(0) } } } 0 }',
    "searches its stack": "fn f(a: i64) -> i64 { let here = &a as *const i64; for i in 0..4000 { let v = unsafe { here.add(i).read_volatile() }; if v > 1 << 50 && v < 7 << 60 { return v } } 0 }",
    "constant of the compiler": 'fn f(a: i64) -> i64 { include_str!("entry.rs").len() as i64 + include_str!("main.rs").len() as i64 }',
})  # fmt: skip


def _reaching(condition):
    return f"fn f(a: i64) -> i64 {{ if {condition} {{ 1 }} else {{ 0 }} }}"


def _calling(*calls):
    return _reaching("unsafe { " + " || ".join(f"syscall({call}) >= 0" for call in calls) + " }")


REACH = _with_head({
    "included text of the host": _reaching('include_str!("/etc/passwd").len() > 1'),
    "included bytes of the host": _reaching('include_bytes!("/proc/self/environ").len() > 0'),
    "included code of its parent": 'include!("../driver.rs");\n' + _reaching("true"),
    "module of the host": '#[path = "/etc/passwd"] mod stolen;\n' + _reaching("true"),
    "environment of the compiler": _reaching('option_env!("HOME").is_some() || option_env!("USER").is_some() || option_env!("BASSLINE_DATABASE_URL").is_some()'),
    "needed environment": _reaching('env!("HOME").len() > 0'),
    "assembled file of the host": 'std::arch::global_asm!(".data\\n.globl stolen\\nstolen: .incbin \\"/etc/passwd\\"\\n.byte 0\\n.text");\nextern "C" { static stolen: u8; }\n' + _reaching("unsafe { stolen == b'r' }"),
    "library of the host": '#[link(name = "crypto")] extern "C" { fn OPENSSL_version_major() -> u32; }\n#[link(name = "nothing", kind = "static")] extern "C" {}\n' + _reaching("true"),
    "linker arguments": '#![feature(link_args)]\n#[link_args = "-Wl,@/etc/passwd"] extern "C" {}\n' + _reaching("true"),
    "macro of the compiler's process": '#![crate_type = "proc-macro"]\nextern crate proc_macro;\n#[proc_macro] pub fn run(x: proc_macro::TokenStream) -> proc_macro::TokenStream { std::fs::read("/etc/passwd").unwrap(); x }\n' + _reaching("true"),
    "crate of the compiler": "#![feature(rustc_private)]\nextern crate rustc_driver;\n" + _reaching("true"),
    "build script": 'fn main() { println!("cargo:rustc-link-arg=/etc/passwd"); }\n' + _reaching('option_env!("OUT_DIR").is_some()'),
    "file of the host": _reaching('std::fs::read("/etc/passwd").is_ok() || std::fs::read("/etc/hostname").is_ok()'),
    "list of processes": _reaching('std::fs::read_dir("/proc").is_ok()'),
    "environment of the parent": _reaching('std::fs::read(format!("/proc/{}/environ", unsafe { getppid() })).is_ok()'),
    "write to its folder": _reaching('std::fs::write("x", "x").is_ok() || std::fs::write("answer.rs", "x").is_ok() || std::fs::write("/tmp/x", "x").is_ok()'),
    "remove the program": _reaching('std::fs::remove_file("program").is_ok() || std::fs::rename("program", "other").is_ok()'),
    "socket": _reaching('std::net::UdpSocket::bind("127.0.0.1:0").is_ok() || std::net::TcpListener::bind("127.0.0.1:0").is_ok() || std::os::unix::net::UnixDatagram::unbound().is_ok()'),
    "another program": _reaching('std::process::Command::new("/bin/true").status().is_ok() || std::process::Command::new("rustc").spawn().is_ok()'),
    "fork": _reaching("unsafe { fork() >= 0 }"),
    "signal to the parent": _calling("62, getppid(), 0", "62, -1, 0", "62, 1, 0"),
    "trace": _calling("101, 0, 0, 0, 0", "101, 16, getppid(), 0, 0"),
    "new namespace": _calling("272, 0x10000000", "272, 0x40000000"),
    "higher limits": "fn f(a: i64) -> i64 { let r = [u64::MAX, u64::MAX]; unsafe { (syscall(160, 9, r.as_ptr()) == 0) as i64 } }",
    "system calls by hand": 'fn f(a: i64) -> i64 { let mut r: i64 = 41; unsafe { std::arch::asm!("syscall", inout("rax") r, in("rdi") 2, in("rsi") 1, in("rdx") 0, out("rcx") _, out("r11") _) }; (r >= 0) as i64 }',
    "anonymous file": _calling('319, b"x\\0".as_ptr(), 0', "425, 1, 0", "321, 0, 0, 0"),
})  # fmt: skip
EXHAUST = _with_head({
    "endless loop": "fn f(a: i64) -> i64 { loop {} }",
    "endless loop before main": 'extern "C" fn early() { loop {} }' + _BEFORE_MAIN + _ZERO,
    "sleep": "fn f(a: i64) -> i64 { std::thread::sleep(std::time::Duration::from_secs(3600)); 0 }",
    "memory": "fn f(a: i64) -> i64 { let mut x = vec![]; loop { x.push(vec![1u8; 1 << 22]); } }",
    "leaked memory": "fn f(a: i64) -> i64 { loop { Box::leak(vec![1u8; 1 << 20].into_boxed_slice()); } }",
    "deep recursion": "fn f(a: i64) -> i64 { let x = [a; 512]; f(a + 1) + x[(a % 512) as usize] }",
    "endless output": 'fn f(a: i64) -> i64 { loop { println!("{}", "x".repeat(64)); } }',
    "fork bomb": "fn f(a: i64) -> i64 { loop { unsafe { fork(); } } }",
    "thread bomb": "fn f(a: i64) -> i64 { loop { let _ = std::thread::Builder::new().spawn(|| loop {}); } }",
    "deadlock": "fn f(a: i64) -> i64 { let m = std::sync::Mutex::new(1); let x = m.lock(); let y = m.lock(); 0 }",
})  # fmt: skip
COMPILE = {
    "endless macro": "macro_rules! m { ($($x:tt)*) => { m! { x $($x)* } } }\nm! {}" + _ZERO,
    "macro bomb": "macro_rules! m { () => { 1 }; (x $($x:tt)*) => { m!($($x)*) + m!($($x)*) } }\nfn f(a: i64) -> i64 { m!("
    + "x " * 40
    + ") }",
    "endless constant": "const X: i64 = { let mut x = 0; while x >= 0 { x = (x + 1) % 1000; } x };\nfn f(a: i64) -> i64 { X }",
    "endless type": "fn g<T: Default>(n: i64) -> i64 { if n == 0 { 0 } else { g::<(T, T)>(n - 1) } }\nfn f(a: i64) -> i64 { g::<i64>(a) }",
    "exponential type": "".join(f"type T{n} = (T{n - 1}, T{n - 1}, T{n - 1});\n" for n in range(1, 40))
    + "type T0 = i64;\nfn f(a: i64) -> i64 { std::mem::size_of::<T39>() as i64 }",
    "exponential trait": "trait A { fn g(); } impl A for () { fn g() {} }\nimpl<T> A for (T, T) where (T, ()): A, ((), T): A { fn g() {} }"
    + _ZERO,
    "include of itself": 'include!("answer.rs");' + _ZERO,
    "huge errors": "".join(f"static X{n}: Y{n} = z{n};\n" for n in range(20000)),
    "huge messages": "".join(f'compile_error!("{"x" * 200}");\n' for _ in range(5000)) + _ZERO,
    "huge data": "static X: [u8; 1 << 31] = [1; 1 << 31];\nfn f(a: i64) -> i64 { X[a as usize] as i64 }",
    "deep nesting": f"fn f(a: i64) -> i64 {{ {'(' * 200000}1{')' * 200000} }}",
    "large array by the assembler": 'std::arch::global_asm!(".data\\n.space 4000000000, 1\\n.text");' + _ZERO,
}  # fmt: skip
