package bassline;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Loads the answer's class, calls its method once for each line on a descriptor, and writes one line each on another.
 *
 * It shares its process with the answer, so nothing that it writes is trusted: it can only report values.
 */
final class Driver {
    private static final int LIMIT = 2000;

    private final String name;
    private final Type[] parameters;
    private final Type returns;
    private final OutputStream out;
    private Method method;

    public static void main(String[] arguments) throws IOException {
        List<String> signature = Files.readAllLines(Path.of("signature"));
        if (signature.size() == 1) {
            runWhole(Files.readString(Path.of("entry")), signature.get(0));
        }
        OutputStream out = new FileOutputStream(descriptor(Integer.parseInt(arguments[1])));
        Driver driver = new Driver(signature, out);
        if (driver.load(Files.readString(Path.of("entry")))) {
            driver.serve(new FileInputStream(descriptor(Integer.parseInt(arguments[0]))));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Runs a program that its test is part of; ends with 0 if the test raises nothing. */
    private static void runWhole(String entry, String name) {
        try {
            Driver.class.getClassLoader().setDefaultAssertionStatus(true);
            Method method = Class.forName(entry).getDeclaredMethod(name, String[].class);
            method.setAccessible(true);
            method.invoke(null, (Object) new String[0]);
        } catch (Throwable error) {
            (error instanceof InvocationTargetException ? error.getCause() : error).printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.exit(0);
    }

    private Driver(List<String> lines, OutputStream out) {
        this.out = out;
        name = lines.get(0);
        parameters = new Type[lines.size() - 2];
        for (int i = 0; i < parameters.length; i++) {
            parameters[i] = new Type(lines.get(i + 1));
        }
        returns = new Type(lines.get(lines.size() - 1));
    }

    /** A descriptor that the process was started with; nothing in the standard library opens one by its number. */
    private static FileDescriptor descriptor(int number) {
        try {
            Field access = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            access.setAccessible(true);
            sun.misc.Unsafe memory = (sun.misc.Unsafe) access.get(null);
            FileDescriptor descriptor = new FileDescriptor();
            memory.putInt(descriptor, memory.objectFieldOffset(FileDescriptor.class.getDeclaredField("fd")), number);
            return descriptor;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private boolean load(String entry) throws IOException {
        try {
            for (Method each : Class.forName(entry).getDeclaredMethods()) {
                if (each.getName().equals(name) && each.getParameterCount() == parameters.length && !each.isBridge()) {
                    method = each;
                }
            }
            if (method == null) {
                throw new NoSuchMethodException(entry + " has no method " + name);
            }
            method.setAccessible(true);
        } catch (Throwable error) {
            send("{\"failed\":" + described(error instanceof ExceptionInInitializerError ? error.getCause() : error) + "}");
            return false;
        }
        send("{\"ready\":true}");
        return true;
    }

    private void serve(InputStream in) throws IOException {
        byte[] unread = new byte[1 << 16];
        int size = 0;
        for (int read; (read = in.read(unread, size, unread.length - size)) > 0;) {
            size += read;
            int start = 0;
            for (int at = size - read; at < size; at++) {
                if (unread[at] == '\n') {
                    send(answered(new Reader(new String(unread, start, at - start, StandardCharsets.UTF_8))));
                    start = at + 1;
                }
            }
            System.arraycopy(unread, start, unread, 0, size - start);
            size -= start;
            if (size == unread.length) {
                unread = java.util.Arrays.copyOf(unread, 2 * size);
            }
        }
    }

    private String answered(Reader reader) {
        reader.pass("{\"id\":");
        String head = "{\"id\":" + reader.word();
        reader.pass(",\"args\":[");
        Object[] args = new Object[parameters.length];
        for (int i = 0; i < args.length; i++) {
            args[i] = fitted(parameters[i].read(reader), method.getParameterTypes()[i]);
            reader.skip();
        }
        Object value;
        try {
            value = called(args);
        } catch (InvocationTargetException error) {
            return head + ",\"raised\":" + described(error.getCause()) + "}";
        } catch (Throwable error) {
            return head + ",\"raised\":" + described(error) + "}";
        }
        try {
            StringBuilder result = new StringBuilder(head).append(",\"result\":");
            returns.write(value, result);
            return result.append('}').toString();
        } catch (Throwable error) {
            String reason = error instanceof Type.UnfitException ? error.getMessage() : error.toString();
            StringBuilder bad = new StringBuilder(head).append(",\"bad\":");
            Type.writeText(cut(reason), bad);
            return bad.append('}').toString();
        }
    }

    private Object called(Object[] args) throws ReflectiveOperationException {
        if (Modifier.isStatic(method.getModifiers())) {
            return method.invoke(null, args);
        }
        Constructor<?> constructor = method.getDeclaringClass().getDeclaredConstructor();
        constructor.setAccessible(true);
        return method.invoke(constructor.newInstance(), args);
    }

    /** A number as the method declares it, where the answer has another width than the prompt. */
    private static Object fitted(Object value, Class<?> wanted) {
        if (value instanceof Long number && (wanted == int.class || wanted == Integer.class)) {
            return number.intValue() == number ? (Object) number.intValue() : value;
        }
        if (value instanceof Double number && (wanted == float.class || wanted == Float.class)) {
            return number.floatValue();
        }
        return value;
    }

    private static String described(Throwable error) {
        StringBuilder text = new StringBuilder("{\"summary\":");
        try {
            Type.writeText(cut(error.toString()), text);
        } catch (Throwable other) {
            text = new StringBuilder("{\"summary\":\"an exception that cannot be shown\"");
        }
        List<String> lines = new ArrayList<>();
        for (StackTraceElement each : error.getStackTrace()) {
            if ("program.java".equals(each.getFileName()) && lines.size() < 20) {
                lines.add("program.java:" + each.getLineNumber() + " in " + each.getMethodName());
            }
        }
        text.append(",\"trace\":");
        Type.writeText(cut(String.join("\n", lines)), text);
        return text.append('}').toString();
    }

    private static String cut(String text) {
        return text == null ? "" : text.length() > LIMIT ? text.substring(0, LIMIT) : text;
    }

    private void send(String frame) throws IOException {
        out.write((frame + "\n").getBytes(StandardCharsets.UTF_8));
    }
}
