package bassline;

import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreeScanner;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;

/**
 * Compiles program.java in the current folder and writes the name of the class that has the function into `entry`.
 *
 * Packages that an editor would import are imported, a function without a class gets one, and a public class may have
 * any name. Every line keeps its number. No annotation processor runs. A signature of one name means a program that
 * its test is part of: the last class with that method counts, and Pair.java is compiled with it.
 */
final class Build {
    private static final String IMPORTS = imports("java.util", "java.util.function", "java.util.stream",
            "java.util.regex", "java.math", "java.text", "java.time", "java.io", "java.nio.charset", "java.security");
    private static final Pattern HEAD = Pattern.compile(
            "(?:\\s|//[^\\n]*|/\\*(?s:.*?)\\*/|import\\s[^;]*;)*");
    private static final Pattern PACKAGE = Pattern.compile("(?:\\s|//[^\\n]*|/\\*(?s:.*?)\\*/)*package\\s[^;]*;");
    private static final int SHOWN = 10;

    private static String imports(String... packages) {
        StringBuilder text = new StringBuilder();
        for (String each : packages) {
            text.append("import ").append(each).append(".*; ");
        }
        return text.toString();
    }

    public static void main(String[] arguments) throws IOException {
        try {
            build();
        } catch (RuntimeException | StackOverflowError error) {
            System.err.println("program.java: error: the compiler failed: " + error);
            System.exit(1);
        }
    }

    private static void build() throws IOException {
        List<String> signature = Files.readAllLines(Path.of("signature"));
        boolean whole = signature.size() == 1;
        String name = signature.get(0);
        int parameters = whole ? 1 : signature.size() - 2;
        String program = Files.readString(Path.of("program.java"));
        Build build = new Build(withImports(program), whole);
        String entry = build.entry(name, parameters);
        if (entry == null && !whole) {
            Build wrapped = new Build(withImports(inClass(program)), false);
            String found = wrapped.entry(name, parameters);
            if (found != null) {
                build = wrapped;
                entry = found;
            }
        }
        boolean compiled = build.compile();
        build.report();
        if (compiled && entry == null) {
            System.err.println("program.java: error: no class has a method " + name + " with " + parameters + " parameters");
        }
        if (!compiled || entry == null) {
            System.exit(1);
        }
        Files.writeString(Path.of("entry"), entry);
    }

    private final boolean whole;
    private final DiagnosticCollector<JavaFileObject> diagnostics = new DiagnosticCollector<>();
    private final JavacTask task;
    private final Iterable<? extends CompilationUnitTree> units;

    private Build(String source, boolean whole) throws IOException {
        this.whole = whole;
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager files = compiler.getStandardFileManager(diagnostics, null, null);
        File classes = new File("classes");
        classes.mkdir();
        files.setLocation(StandardLocation.CLASS_OUTPUT, List.of(classes));
        files.setLocation(StandardLocation.CLASS_PATH, List.of(classes));
        List<String> options = List.of("-proc:none", "-implicit:none", "-nowarn", "-g", "-XDstringConcat=inline");
        List<JavaFileObject> sources = new ArrayList<>(List.of(new Source(source)));
        if (whole) {
            files.getJavaFileObjects(Path.of("Pair.java")).forEach(sources::add);
        }
        task = (JavacTask) compiler.getTask(null, files, diagnostics, options, null, sources);
        units = task.parse();
    }

    private static final class Source extends SimpleJavaFileObject {
        private final String text;

        Source(String text) {
            super(URI.create("string:///program.java"), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }

        @Override
        public boolean isNameCompatible(String simpleName, Kind kind) {
            return true;
        }

        @Override
        public String getName() {
            return "program.java";
        }
    }

    private static String withImports(String program) {
        Matcher head = PACKAGE.matcher(program);
        int at = head.lookingAt() ? head.end() : 0;
        return program.substring(0, at) + IMPORTS + program.substring(at);
    }

    private static String inClass(String program) {
        Matcher head = HEAD.matcher(program);
        int at = head.lookingAt() ? head.end() : 0;
        return program.substring(0, at) + "class Solution { " + program.substring(at) + "\n}";
    }

    /** The binary name of the class with that method, null for none. */
    private String entry(String name, int parameters) {
        Finder finder = new Finder(name, parameters, whole);
        for (CompilationUnitTree unit : units) {
            String home = unit.getPackageName() == null ? "" : unit.getPackageName() + ".";
            finder.scan(unit.getTypeDecls(), home);
        }
        return finder.found;
    }

    private static final class Finder extends TreeScanner<Void, String> {
        private final String name;
        private final int parameters;
        private final boolean last;
        private String found;

        Finder(String name, int parameters, boolean last) {
            this.last = last;
            this.name = name;
            this.parameters = parameters;
        }

        @Override
        public Void visitClass(ClassTree node, String prefix) {
            String own = prefix + node.getSimpleName();
            for (var member : node.getMembers()) {
                if (member instanceof MethodTree method && (found == null || last) && method.getName().contentEquals(name)
                        && method.getParameters().size() == parameters) {
                    found = own;
                } else if (member instanceof ClassTree) {
                    scan(member, own + "$");
                }
            }
            return null;
        }
    }

    private boolean compile() throws IOException {
        task.analyze();
        if (!hasErrors()) {
            task.generate();
        }
        return !hasErrors();
    }

    private boolean hasErrors() {
        for (Diagnostic<?> each : diagnostics.getDiagnostics()) {
            if (each.getKind() == Diagnostic.Kind.ERROR) {
                return true;
            }
        }
        return false;
    }

    private void report() {
        int shown = 0;
        for (Diagnostic<?> each : diagnostics.getDiagnostics()) {
            if (each.getKind() == Diagnostic.Kind.ERROR && shown++ < SHOWN) {
                String message = each.getMessage(null).lines().reduce((a, b) -> a + "; " + b.strip()).orElse("");
                System.err.println("program.java:" + each.getLineNumber() + ": error: " + message);
            }
        }
    }
}
