"""Programs in C++ that attack their judge. Each must fail; `languages.corpus` says against which task.

FORGE programs do not know the answer and try to pass nevertheless. REACH programs answer rightly only where something
could be reached that must be out of reach, while compiling or running. EXHAUST programs use up a resource, COMPILE
programs the compiler.
"""

_HEAD = "#include <bits/stdc++.h>\n#include <dirent.h>\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/prctl.h>\n#include <sys/ptrace.h>\n#include <sys/resource.h>\n#include <sys/socket.h>\n#include <sys/stat.h>\n#include <sys/syscall.h>\n#include <sys/wait.h>\n#include <signal.h>\n#include <spawn.h>\n#include <sched.h>\n#include <unistd.h>\n"
_ZERO = "\nlong long f(long long a) { return 0; }"


def _with_head(programs):
    return {name: _HEAD + text for name, text in programs.items()}


FORGE = _with_head({
    "answer frame at once": r'long long f(long long a) { dprintf(4, "{\"id\":0,\"result\":\"0\"}\n"); return 0; }',
    "frames before main": r'struct S { S() { dprintf(4, "{\"ready\":true}\n"); for (int i = 0; i < 3; ++i) dprintf(4, "{\"id\":%d,\"result\":\"0\"}\n", i); } } s;' + _ZERO,
    "driver of its own before main": r'struct S { S() { dprintf(4, "{\"ready\":true}\n"); char c; for (int i = 0; read(3, &c, 1) == 1;) if (c == 10) dprintf(4, "{\"id\":%d,\"raised\":{}}\n", i++); _exit(0); } } s;' + _ZERO,
    "constructor attribute": r'__attribute__((constructor(101))) static void g() { dprintf(4, "{\"status\":\"passed\"}\n"); _exit(0); }' + _ZERO,
    "constexpr result by the compiler": "constexpr long long g(const char* s) { return s[0]; }\nlong long f(long long a) { return g(__FILE__ __DATE__); }",
    "passed frame": r'long long f(long long a) { dprintf(4, "{\"status\":\"passed\"}\n"); pause(); return 0; }',
    "frame without a line end": "long long f(long long a) { char x[4096] = {}; for (;;) write(4, x, sizeof x); }",
    "null result": r'long long f(long long a) { dprintf(4, "{\"id\":0,\"result\":null}\n"); return 0; }',
    "prints PASSED": r'long long f(long long a) { puts("PASSED\nok"); fflush(stdout); exit(0); }',
    "exit 0": "long long f(long long a) { exit(0); }",
    "exit by the kernel": "long long f(long long a) { _exit(0); }",
    "exit before main": "struct S { S() { exit(0); } } s;" + _ZERO,
    "frames at exit": r'long long f(long long a) { atexit([] { for (int i = 0; i < 3; ++i) dprintf(4, "{\"id\":%d,\"result\":\"0\"}\n", i); }); exit(0); }',
    "late frame of a thread": r'long long f(long long a) { std::thread([] { for (;;) dprintf(4, "{\"id\":1,\"result\":\"0\"}\n"); }).detach(); return 0; }',
    "closed descriptors": "long long f(long long a) { for (int d = 0; d < 9; ++d) close(d); return 0; }",
    "reads ahead": "long long f(long long a) { char x[9999]; return read(3, x, sizeof x); }",
    "replaced conversation": r'namespace bassline { template <> [[noreturn]] inline void serve<int>(int) { _exit(0); } }' + "\n#define serve(x) hidden(x)\n" + _ZERO,
    "replaced write": r'extern "C" ssize_t write(int d, const void* p, size_t n) { return syscall(SYS_write, d, "{\"id\":0,\"result\":\"7\"}\n", 22); }' + _ZERO,
    "replaced main": "namespace bassline { inline int ready = 0; }\n#define long_long 1\n#define main(...) main(__VA_ARGS__) { _exit(0); } int other()\n" + _ZERO,
    "searches its files": r'long long f(long long a) { for (auto p : {"answer.cpp", "entry.hpp", "cases.json", "../cases.json", "/tmp/cases.json"}) { std::ifstream s(p); std::string w; while (s >> w) if (w.size() > 17 && std::isdigit(w[0])) return std::stoll(w); } return 0; }',
    "searches its memory": r'long long f(long long a) { std::ifstream maps("/proc/self/maps"); std::string line; std::getline(maps, line); for (char** e = environ; *e; ++e) line += *e; return line.size(); }',
    "throws": "long long f(long long a) { throw 1; }",
    "longjmp into main": "#include <setjmp.h>\nstatic jmp_buf here; struct S { S() { setjmp(here); } } s;\nlong long f(long long a) { longjmp(here, 1); }",
    "reads the stack of its caller": "long long f(long long a) { long long* p = (long long*)__builtin_frame_address(0); for (int i = 0; i < 4000; ++i) if (p[i] > (1LL << 50) && p[i] < (1LL << 62) + (1LL << 61)) return p[i]; return 0; }",
})  # fmt: skip


def _reaching(condition):
    return f"long long f(long long a) {{ return ({condition}) ? 1 : 0; }}"


REACH = _with_head({
    "included file of the host": 'const char* x =\n#include "/etc/passwd"\n;\n' + _reaching("true"),
    "embedded file of the host": "const char x[] = {\n#embed \"/etc/passwd\"\n};\n" + _reaching("sizeof x > 1"),
    "has include": '#if __has_include("/etc/passwd") || __has_include("/proc/self/maps") || __has_include("/etc/hostname")\n' + _reaching("true") + "\n#else\n" + _reaching("false") + "\n#endif",
    "assembled file of the host": r'__asm__(".data\n.globl stolen\nstolen: .incbin \"/etc/passwd\"\n.byte 0\n.text");' + "\nextern char stolen[];\n" + _reaching("stolen[0] == 'r'"),
    "include of its parent": '#include "../driver.hpp"\n' + _reaching("true"),
    "plugin pragma": '#pragma GCC plugin "/tmp/x.so"\n#pragma GCC dependency "/etc/passwd"\n' + _reaching("false"),
    "linker script by the assembler": r'__asm__(".section .note\n.include \"/etc/passwd\"\n");' + "\n" + _reaching("true"),
    "file of the host": _reaching('open("/etc/passwd", O_RDONLY) >= 0 || open("/etc/hostname", O_RDONLY) >= 0'),
    "list of processes": _reaching('opendir("/proc") != nullptr'),
    "environment of the parent": _reaching('open(("/proc/" + std::to_string(getppid()) + "/environ").c_str(), O_RDONLY) >= 0'),
    "write to its folder": _reaching('open("x", O_CREAT | O_WRONLY, 0644) >= 0 || open("answer.cpp", O_WRONLY) >= 0 || open("/tmp/x", O_CREAT | O_WRONLY, 0644) >= 0'),
    "remove the program": _reaching('unlink("program") == 0 || rename("program", "other") == 0 || chmod("program", 0) == 0'),
    "socket": _reaching("socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || socket(AF_NETLINK, SOCK_RAW, 0) >= 0"),
    "fork": _reaching("fork() >= 0 || vfork() >= 0 || syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0"),
    "another program": 'long long f(long long a) { pid_t p; char* v[] = {(char*)"g++", nullptr}; if (posix_spawnp(&p, "/usr/bin/g++", nullptr, nullptr, v, v) == 0) return 1; return system("true") == 0; }',
    "signal to the parent": _reaching("kill(getppid(), 0) == 0 || kill(-1, 0) == 0 || kill(1, 0) == 0"),
    "trace": _reaching("ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 || ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0"),
    "memory of the parent": "#include <sys/uio.h>\n" + "long long f(long long a) { char x[8]; iovec l{x, 8}, r{(void*)0x400000, 8}; return process_vm_readv(getppid(), &l, 1, &r, 1, 0) > 0; }",
    "new namespace": _reaching("unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWNET) == 0"),
    "higher limits": "long long f(long long a) { rlimit r{RLIM_INFINITY, RLIM_INFINITY}; return setrlimit(RLIMIT_AS, &r) == 0; }",
    "system calls by hand": "long long f(long long a) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(41), \"D\"(2), \"S\"(1), \"d\"(0) : \"rcx\", \"r11\", \"memory\"); return r >= 0; }",
    "anonymous file": _reaching('syscall(SYS_memfd_create, "x", 0) >= 0 || syscall(SYS_io_uring_setup, 1, 0) >= 0 || syscall(SYS_bpf, 0, 0, 0) >= 0'),
})  # fmt: skip
EXHAUST = _with_head({
    "endless loop": "long long f(long long a) { for (volatile int i = 0;; ++i); }",
    "endless loop before main": "struct S { S() { for (volatile int i = 0;; ++i); } } s;" + _ZERO,
    "sleep": "long long f(long long a) { sleep(3600); return 0; }",
    "memory": "long long f(long long a) { for (;;) { auto* p = new char[1 << 20]; memset(p, 1, 1 << 20); } }",
    "mapped memory": "long long f(long long a) { for (;;) { void* p = mmap(nullptr, 1 << 22, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); if (p == MAP_FAILED) abort(); memset(p, 1, 1 << 22); } }",
    "deep recursion": "long long f(long long a) { volatile char x[4096]; x[a % 4096] = 1; return f(a + 1) + x[0]; }",
    "endless output": "long long f(long long a) { for (;;) puts(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"); }",
    "fork bomb": "long long f(long long a) { for (;;) fork(); }",
    "thread bomb": "long long f(long long a) { for (;;) std::thread([] { for (;;); }).detach(); }",
})  # fmt: skip
COMPILE = {
    "endless template": "template <int N> struct A { static const int x = A<N + 1>::x; };" + "\nlong long f(long long a) { return A<0>::x; }",
    "exponential template": "template <int N, int M> struct A { static const long x = A<N - 1, 2 * M>::x + A<N - 1, 2 * M + 1>::x; };\ntemplate <int M> struct A<0, M> { static const long x = 1; };\nlong long f(long long a) { return A<26, 1>::x; }",
    "endless constexpr": "constexpr long g() { long x = 0; for (;;) ++x; return x; }\nconstexpr long y = g();\nlong long f(long long a) { return y; }",
    "macro bomb": "#define A0 1 + 1\n" + "".join(f"#define A{n} A{n - 1} + A{n - 1}\n" for n in range(1, 40)) + "long long f(long long a) { return A39; }",
    "include of itself": '#include "answer.cpp"\n' * 3 + _ZERO,
    "huge errors": "".join(f"undefined_{n} x{n} = y{n};\n" for n in range(20000)),
    "huge messages": "".join(f'#pragma message "{"x" * 200}"\n' for _ in range(5000)) + _ZERO,
    "huge data": "char x[1LL << 31] = {1};\nlong long f(long long a) { return x[a]; }",
    "deep nesting": f"long long f(long long a) {{ return {'(' * 200000}1{')' * 200000}; }}",
    "large array by the assembler": '__asm__(".data\\n.space 4000000000, 1\\n.text");' + _ZERO,
}  # fmt: skip
