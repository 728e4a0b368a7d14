package bassline;

/** Reads the JSON that the judge writes, which is always well-formed. */
final class Reader {
    private final String text;
    private int at;

    Reader(String text) {
        this.text = text;
    }

    char peek() {
        while (text.charAt(at) == ' ') {
            at++;
        }
        return text.charAt(at);
    }

    /** Passes over one character: a bracket, a comma, a colon. */
    void skip() {
        peek();
        at++;
    }

    /** Passes over these characters, with blanks between them or not. */
    void pass(String characters) {
        for (int i = 0; i < characters.length(); i++) {
            skip();
        }
    }

    String word() {
        peek();
        int start = at;
        while (" ,:]}".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        return text.substring(start, at);
    }

    String string() {
        skip();
        StringBuilder found = new StringBuilder();
        for (char each; (each = text.charAt(at++)) != '"';) {
            found.append(each == '\\' ? escaped(text.charAt(at++)) : each);
        }
        return found.toString();
    }

    private char escaped(char letter) {
        switch (letter) {
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            default:
                return letter;
        }
    }
}
