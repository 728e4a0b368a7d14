"""Programs in Java that attack their judge. None may pass; `corpus` has the tasks.

FORGE programs do not know the answer and try to pass nevertheless. REACH programs answer rightly only where something
could be reached that must be out of reach, while compiling or running. EXHAUST programs use up a resource.
"""

_HEAD = """
class A {
    static java.io.FileDescriptor descriptor(int number) throws Exception {
        var access = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        access.setAccessible(true);
        var memory = (sun.misc.Unsafe) access.get(null);
        var found = new FileDescriptor();
        memory.putInt(found, memory.objectFieldOffset(FileDescriptor.class.getDeclaredField("fd")), number);
        return found;
    }
    static void send(String text) throws Exception { new FileOutputStream(descriptor(4)).write((text + "\\n").getBytes()); }
    static long orZero(java.util.concurrent.Callable<Long> attack) { try { return attack.call(); } catch (Throwable e) { return 0; } }
"""


def _a(body, more=""):
    return f"{_HEAD}    static long f(long a) throws Exception {{ {body} }}\n    {more}\n}}\n"


def _reach(attack):
    return _a(f"return orZero(() -> {{ {attack} }});")


def _answer(number):
    return f'send("{{\\"id\\":{number},\\"result\\":\\"0\\"}}");'


FORGE = {
    "answer frame at once": _a(f"{_answer(0)} return 0;"),
    "frames while loading": _a(
        "return 0;", f"static {{ try {{ {_answer(0)} {_answer(1)} {_answer(2)} }} catch (Exception e) {{ }} }}"
    ),
    "ready and frames while loading": _a(
        "return 0;", f'static {{ try {{ send("{{\\"ready\\":true}}"); {_answer(0)} }} catch (Exception e) {{ }} }}'
    ),
    "passed frame": _a('send("{\\"status\\":\\"passed\\"}"); Thread.sleep(99999); return 0;'),
    "frame without a line end": _a("for (;;) new FileOutputStream(descriptor(4)).write(new byte[4096]);"),
    "prints PASSED": _a('System.out.println("PASSED"); System.err.println("OK (1 test)"); System.exit(0); return 0;'),
    "exit 0": _a("System.exit(0); return 0;"),
    "exit 0 while loading": _a("return 0;", "static { System.exit(0); }"),
    "halt": _a("Runtime.getRuntime().halt(0); return 0;"),
    "exception": _a("throw new Error();"),
    "exception that cannot be shown": _a(
        "throw new RuntimeException() { public String toString() { throw new Error(); } };"
    ),
    "exception that answers": _a(
        f"throw new RuntimeException() {{ public String toString() {{ try {{ {_answer(0)} }} catch (Exception e) {{ }} return null; }} }};"
    ),
    "late frame of a thread": _a(
        f"new Thread(() -> {{ try {{ for (;;) {{ {_answer(1)} }} }} catch (Exception e) {{ }} }}).start(); return 0;"
    ),
    "closed descriptors": _a("for (int d = 0; d < 9; d++) new FileOutputStream(descriptor(d)).close(); return 0;"),
    "reads ahead": _a("return new FileInputStream(descriptor(3)).read(new byte[9999]);"),
    "replaced type of the result": _a(
        'var t = Class.forName("bassline.Type").getDeclaredConstructor(String.class); t.setAccessible(true); return t.newInstance("int").hashCode();'
    ),
    "own Type class": "package bassline;\nclass Type { static long f(long a) { return 0; } }\nclass Reader { }",
    "own Driver": "package bassline;\npublic class Driver { public static void main(String[] a) { System.exit(0); } static long f(long a) { return 0; } }",
    "own Long": "class Long extends Number { static long f(long a) { return 0; } public long longValue() { return 1; } public int intValue() { return 1; } public double doubleValue() { return 1; } public float floatValue() { return 1; } public boolean equals(Object o) { return true; } }",
    "number that equals all": "class A { static Number f(long a) { return new Number() { public boolean equals(Object o) { return true; } public long longValue() { return 1; } public int intValue() { return 1; } public double doubleValue() { return 1; } public float floatValue() { return 1; } }; } }",
    "endless number": "class A { static Object f(long a) { return new java.math.BigInteger(99999, new Random(0)); } }",
    "searches its files": _reach(
        'for (String p : new String[] {"program.java", "signature", "entry", "cases.json", "../cases.json"}) if (new File(p).exists()) for (String w : java.nio.file.Files.readString(java.nio.file.Path.of(p)).split("[^0-9]+")) if (w.length() > 12) return Long.parseLong(w); return 0L;'
    ),
    "searches its memory": _reach('return (long) new FileInputStream("/proc/self/mem").read();'),
    "other threads": _reach(
        'for (var each : Thread.getAllStackTraces().keySet()) if (each.getName().equals("main")) each.interrupt(); return 0L;'
    ),
}
REACH = {
    "annotation processor": '@javax.annotation.processing.SupportedAnnotationTypes("*")\nclass P extends javax.annotation.processing.AbstractProcessor { static { System.exit(0); } public boolean process(Set<? extends javax.lang.model.element.TypeElement> a, javax.annotation.processing.RoundEnvironment r) { System.exit(0); return true; } }\nclass A { static long f(long a) { return 0; } }',
    "the judge's classes while compiling": "class A { static long f(long a) { bassline.Driver.main(null); return 1; } }",
    "file named in the source": '/* \\u000a class B { } */ class A { static long f(long a) { return A.class.getResourceAsStream("/etc/passwd") == null ? 0 : 1; } }',
    "file of the host": _reach('new FileInputStream("/etc/passwd").close(); return 1L;'),
    "list of processes": _reach('return new File("/proc").list().length > 0 ? 1L : 0L;'),
    "processes by the runtime": _reach("return ProcessHandle.allProcesses().count() > 1 ? 1L : 0L;"),
    "parent process": _reach("return ProcessHandle.current().parent().get().destroyForcibly() ? 1L : 0L;"),
    "environment of the parent": _reach('return (long) Math.min(1, new FileInputStream("/proc/1/environ").read());'),
    "write to its folder": _reach(
        'try { new FileOutputStream("entry").close(); } catch (IOException e) { new FileOutputStream("/tmp/bassline-x").close(); } return 1L;'
    ),
    "remove its class": _reach('return new File("classes/A.class").delete() || new File("entry").delete() ? 1L : 0L;'),
    "socket": _reach("new java.net.ServerSocket(0).close(); return 1L;"),
    "datagram": _reach("new java.net.DatagramSocket().close(); return 1L;"),
    "unix socket": _reach(
        "java.nio.channels.SocketChannel.open(java.net.StandardProtocolFamily.UNIX).close(); return 1L;"
    ),
    "another program": _reach('return (long) new ProcessBuilder("/bin/true").start().waitFor() + 1;'),
    "another Java": _reach(
        'return (long) new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-version").start().waitFor() + 1;'
    ),
    "native library": _reach('System.load("/tmp/x.so"); return 1L;'),
    "attach to itself": _reach(
        'return javax.tools.ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", "classes", "program.java") == 0 ? 1L : 0L;'
    ),
}
EXHAUST = {
    "endless loop": _a("for (;;) { }"),
    "endless threads": _a("for (;;) new Thread(() -> { for (;;) { } }).start();"),
    "endless executors": _a(
        "for (;;) java.util.concurrent.Executors.newCachedThreadPool().submit(() -> { for (;;) { } });"
    ),
    "memory": _a("var all = new ArrayList<long[]>(); for (;;) all.add(new long[1 << 18]);"),
    "memory outside the heap": _a(
        "var all = new ArrayList<Object>(); for (;;) all.add(java.nio.ByteBuffer.allocateDirect(1 << 20).putInt(1));"
    ),
    "memory by Unsafe": _a(
        'var u = sun.misc.Unsafe.class.getDeclaredField("theUnsafe"); u.setAccessible(true); var m = (sun.misc.Unsafe) u.get(null); for (;;) m.setMemory(m.allocateMemory(1 << 22), 1 << 22, (byte) 1);'
    ),
    "one huge array": _a("return new long[Integer.MAX_VALUE].length;"),
    "deep recursion": _a("return 1 + f(a + 1);"),
    "endless output": _a("for (;;) System.out.println(new char[999]);"),
    "sleep": _a("Thread.sleep(3600_000); return 0;"),
    "deadlock": _a("synchronized (A.class) { A.class.wait(); } return 0;"),
    "fork bomb": _a('for (;;) try { new ProcessBuilder("/bin/sh").start(); } catch (IOException e) { }'),
}
COMPILE = {
    "deep nesting": f"class A {{ static long f(long a) {{ return {'(' * 20000}1{')' * 20000}; }} }}",
    "long sum": f"class A {{ static long f(long a) {{ return {' + '.join(['a'] * 20000)}; }} }}",
    "string bomb": 'class A { static final String s0 = "0123456789abcdef";\n'
    + "".join(f"static final String s{n} = s{n - 1} + s{n - 1};\n" for n in range(1, 32))
    + "static long f(long a) { return s31.length(); } }",
    "generic methods": "class A { static <T> T g(T a, T b) { return a; }\nstatic long f(long a) { var x = "
    + "g(1, " * 18
    + '"a"'
    + ")" * 18
    + "; return 1; } }",
    "nested lambdas": "class A { interface F { Object c(F f); }\nstatic Object c(F f) { return f; } static Object c(Function<Object, Object> f) { return f; }\n"
    + "static long f(long a) { "
    + "".join(f"c(x{n} -> " for n in range(12))
    + "1"
    + ")" * 12
    + "; return 1; } }",
    "deep types": f"class A {{ static long f(long a) {{ {'List<' * 4000}Long{'>' * 4000} x = null; return 0; }} }}",
    "deep classes": "class A { static long f(long a) { return 0; } " + "class B { " * 3000 + "}" * 3001,
    "huge array": f"class A {{ static long[] x = {{ {', '.join(['1L'] * 60000)} }}; static long f(long a) {{ return x[0]; }} }}",
    "many classes": "class A { static long f(long a) { return 0; } }\n"
    + "".join(f"class C{n} {{ }}\n" for n in range(9000)),
    "endless inheritance": "class A extends A { static long f(long a) { return 0; } }",
}
