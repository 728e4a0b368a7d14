// floor_division
class A { static long floor_division(long a, long b) { return Math.floorDiv(a, b); } }
// trap
class A { static long floor_division(long a, long b) { return a / b; } }
// modulo
class A { static long modulo(long a, long b) { return Math.floorMod(a, b); } }
// trap
class A { static long modulo(long a, long b) { return a % b; } }
// half_to_even
class A { static long half_to_even(double x) { return (long) Math.rint(x); } }
// trap
class A { static long half_to_even(double x) { return Math.round(x); } }
// sort_numbers
class A { static List<Long> sort_numbers(List<Long> numbers) { Collections.sort(numbers); return numbers; } }
// trap
class A {
    static List<Long> sort_numbers(List<Long> numbers) {
        numbers.sort(Comparator.comparing(String::valueOf));
        return numbers;
    }
}
// sort_by_length
class A {
    static List<String> sort_by_length(List<String> words) {
        words.sort(Comparator.comparing(String::length));
        return words;
    }
}
// trap
class A { static List<String> sort_by_length(List<String> words) { return new ArrayList<>(new TreeSet<>(words)); } }
// reverse_letters
class A { static String reverse_letters(String text) { return new StringBuilder(text).reverse().toString(); } }
// trap
class A {
    static String reverse_letters(String text) {
        String reversed = "";
        for (char letter : text.toCharArray()) {
            reversed = letter + reversed;
        }
        return reversed;
    }
}
// count_letters
class A { static long count_letters(String text) { return text.codePoints().count(); } }
// trap
class A { static long count_letters(String text) { return text.length(); } }
// last_of
class A {
    static List<Long> last_of(List<Long> numbers, int n) {
        return numbers.subList(Math.max(0, numbers.size() - n), numbers.size());
    }
}
// trap
class A { static List<Long> last_of(List<Long> numbers, int n) { return numbers.subList(numbers.size() - n, numbers.size()); } }
// product
class A { static long product(List<Long> numbers) { return numbers.stream().reduce(1L, (a, b) -> a * b); } }
// trap
class A { static long product(List<Long> numbers) { return numbers.stream().mapToInt(Long::intValue).reduce(1, (a, b) -> a * b); } }
// sum_of_squares
class A { static long sum_of_squares(long n) { return LongStream.rangeClosed(0, n).map(i -> i * i).sum(); } }
// trap
class A { static int sum_of_squares(int n) { return IntStream.rangeClosed(0, n).map(i -> i * i).sum(); } }
// mean
class A { static double mean(List<Double> numbers) { return numbers.stream().mapToDouble(x -> x).sum() / numbers.size(); } }
// trap
class A { static double mean(List<Double> numbers) { return numbers.stream().mapToLong(Double::longValue).sum() / numbers.size(); } }
// first_or_none
class A { static Long first_or_none(List<Long> numbers) { return numbers.isEmpty() ? null : numbers.get(0); } }
// trap
class A { static Long first_or_none(List<Long> numbers) { return numbers.isEmpty() ? 0L : numbers.get(0); } }
// divide
class A { static double divide(double a, double b) { return b == 0 ? Double.POSITIVE_INFINITY : a / b; } }
// trap
class A { static double divide(double a, double b) { return (long) a / (long) b; } }
// not_a_number
class A { static boolean not_a_number(double x) { return Double.isNaN(x); } }
// trap
class A { static boolean not_a_number(double x) { return x == Double.NaN; } }
// counts
class A {
    static Map<String, Integer> counts(List<String> words) {
        Map<String, Integer> found = new HashMap<>();
        words.forEach(word -> found.merge(word, 1, Integer::sum));
        return found;
    }
}
// trap
class A {
    static Map<String, Integer> counts(List<String> words) {
        Map<String, Integer> found = new HashMap<>();
        words.forEach(word -> found.put(word, found.get(word) + 1));
        return found;
    }
}
// by_number
class A {
    static Map<Long, String> by_number(List<Long> numbers) {
        Map<Long, String> found = new HashMap<>();
        for (long n : numbers) {
            found.put(n, n % 2 == 0 ? "even" : "odd");
        }
        return found;
    }
}
// trap
class A {
    static Map<Long, String> by_number(List<Long> numbers) {
        Map<Long, String> found = new HashMap<>();
        for (long n : numbers) {
            found.put(n, n % 2 == 1 ? "odd" : "even");
        }
        return found;
    }
}
// min_and_max
class A { static List<Long> min_and_max(List<Long> numbers) { return List.of(Collections.min(numbers), Collections.max(numbers)); } }
// trap
class A {
    static List<Long> min_and_max(List<Long> numbers) {
        long low = 0, high = 0;
        for (long n : numbers) {
            low = Math.min(low, n);
            high = Math.max(high, n);
        }
        return List.of(low, high);
    }
}
// root
class A {
    static long root(long n) {
        if (n < 0) {
            throw new IllegalArgumentException("negative");
        }
        return (long) Math.sqrt(n);
    }
}
// trap
class A { static long root(long n) { return (long) Math.sqrt(n); } }
// compare_versions
class A {
    static long compare_versions(String a, String b) {
        int[] one = Arrays.stream(a.split("\\.")).mapToInt(Integer::parseInt).toArray();
        return Integer.signum(Arrays.compare(one, Arrays.stream(b.split("\\.")).mapToInt(Integer::parseInt).toArray()));
    }
}
// trap
class A { static long compare_versions(String a, String b) { return Integer.signum(a.compareTo(b)); } }
// title
class A {
    static String title(String text) {
        StringBuilder found = new StringBuilder(text);
        for (int i = 0; i < text.length(); i++) {
            if (i == 0 || text.charAt(i - 1) == ' ') {
                found.setCharAt(i, Character.toUpperCase(text.charAt(i)));
            }
        }
        return found.toString();
    }
}
// trap
class A {
    static String title(String text) {
        return Arrays.stream(text.split(" ")).filter(word -> !word.isEmpty())
                .map(word -> word.substring(0, 1).toUpperCase() + word.substring(1)).collect(Collectors.joining(" "));
    }
}
