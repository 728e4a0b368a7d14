package bassline;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A type of the signature: reads and writes its values in their JSON form. */
final class Type {
    static final class UnfitException extends RuntimeException {
        UnfitException(Object value, String wanted) {
            super(shown(value) + " is not " + wanted);
        }

        private static String shown(Object value) {
            if (value == null) {
                return "null";
            }
            boolean plain = value instanceof Number || value instanceof String || value instanceof Boolean;
            return plain ? value.toString() : "a " + value.getClass().getSimpleName();
        }
    }

    private final String kind;
    private final List<Type> parts = new ArrayList<>();

    /** The type in a text such as `dict[str, list[int]]`. */
    Type(String text) {
        int open = text.indexOf('[');
        kind = open < 0 ? text : text.substring(0, open);
        int depth = 0;
        for (int at = open + 1, start = at; open >= 0 && at < text.length(); at++) {
            char each = text.charAt(at);
            if (depth == 0 && (each == ',' || each == ']')) {
                parts.add(new Type(text.substring(start, at).strip()));
                start = at + 1;
            }
            depth += each == '[' ? 1 : each == ']' ? -1 : 0;
        }
    }

    Object read(Reader reader) {
        if (reader.peek() == 'n') {
            reader.word();
            return null;
        }
        switch (kind) {
            case "bool":
                return reader.word().equals("true");
            case "int":
                return Long.parseLong(reader.string());
            case "float":
                return reader.peek() == '"' ? special(reader.string()) : Double.parseDouble(reader.word());
            case "str":
                return reader.string();
            case "optional":
                return parts.get(0).read(reader);
            case "dict":
                return readDict(reader);
            default:
                return readList(reader);
        }
    }

    private static double special(String name) {
        switch (name) {
            case "nan":
                return Double.NaN;
            case "inf":
                return Double.POSITIVE_INFINITY;
            case "-inf":
                return Double.NEGATIVE_INFINITY;
            default:
                return -0.0;
        }
    }

    private List<Object> readList(Reader reader) {
        List<Object> values = new ArrayList<>();
        for (reader.skip(); reader.peek() != ']'; values.add(part(values.size()).read(reader))) {
            if (reader.peek() == ',') {
                reader.skip();
            }
        }
        reader.skip();
        return values;
    }

    private Type part(int position) {
        return parts.get(kind.equals("tuple") ? position : 0);
    }

    private Map<Object, Object> readDict(Reader reader) {
        Map<Object, Object> values = new LinkedHashMap<>();
        for (reader.skip(); reader.peek() != ']'; reader.skip()) {
            if (reader.peek() == ',') {
                reader.skip();
            }
            reader.skip();
            Object key = parts.get(0).read(reader);
            reader.skip();
            values.put(key, parts.get(1).read(reader));
        }
        reader.skip();
        return values;
    }

    void write(Object value, StringBuilder out) {
        if (value == null) {
            if (!kind.equals("optional") && !kind.equals("none")) {
                throw new UnfitException(value, kind);
            }
            out.append("null");
            return;
        }
        switch (kind) {
            case "bool" -> out.append((boolean) (Boolean) of(Boolean.class, value, "a boolean"));
            case "int" -> writeInt(value, out);
            case "float" -> writeFloat(of(Number.class, value, "a double").doubleValue(), out);
            case "str" -> writeText(value instanceof Character ? value.toString() : of(String.class, value, "a String"), out);
            case "optional" -> parts.get(0).write(value, out, true);
            case "list", "tuple" -> writeList(of(List.class, value, "a List"), out);
            case "dict" -> writeDict(of(Map.class, value, "a Map"), out);
            default -> throw new UnfitException(value, "null");
        }
    }

    private void write(Object value, StringBuilder out, boolean orAbsent) {
        if (orAbsent && value instanceof Optional<?> maybe) {
            if (maybe.isEmpty()) {
                out.append("null");
                return;
            }
            value = maybe.get();
        }
        write(value, out);
    }

    private static <T> T of(Class<T> wanted, Object value, String name) {
        if (!wanted.isInstance(value)) {
            throw new UnfitException(value, name);
        }
        return wanted.cast(value);
    }

    private static void writeInt(Object value, StringBuilder out) {
        if (!(value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte
                || value instanceof BigInteger)) {
            throw new UnfitException(value, "a long");
        }
        out.append('"').append(value).append('"');
    }

    private static void writeFloat(double value, StringBuilder out) {
        if (Double.isNaN(value)) {
            out.append("\"nan\"");
        } else if (Double.isInfinite(value)) {
            out.append(value > 0 ? "\"inf\"" : "\"-inf\"");
        } else if (value == 0 && 1 / value < 0) {
            out.append("\"-0\"");
        } else {
            out.append(value);
        }
    }

    private void writeList(List<?> values, StringBuilder out) {
        if (kind.equals("tuple") && values.size() != parts.size()) {
            throw new UnfitException(values, "a List of " + parts.size());
        }
        out.append('[');
        int position = 0;
        for (Object each : values) {
            if (position > 0) {
                out.append(',');
            }
            part(position++).write(each, out);
        }
        out.append(']');
    }

    private void writeDict(Map<?, ?> values, StringBuilder out) {
        String separator = "[[";
        for (Map.Entry<?, ?> each : values.entrySet()) {
            out.append(separator);
            parts.get(0).write(each.getKey(), out);
            out.append(',');
            parts.get(1).write(each.getValue(), out);
            separator = "],[";
        }
        out.append(separator.equals("[[") ? "[]" : "]]");
    }

    /** The text as JSON in ASCII. */
    static void writeText(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each >= ' ' && each < 127 && each != '"' && each != '\\') {
                out.append(each);
            } else {
                out.append("\\u");
                for (int shift = 12; shift >= 0; shift -= 4) {
                    out.append("0123456789abcdef".charAt(each >> shift & 15));
                }
            }
        }
        out.append('"');
    }
}
