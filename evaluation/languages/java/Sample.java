package bassline;

import java.util.*;
import java.util.stream.*;

/** A program with what answers usually use, run once so that the archives hold its classes. */
class Sample {
    public static List<Long> sample(List<Long> numbers, String text) {
        Map<Character, Integer> counts = new HashMap<>();
        for (char each : text.toCharArray()) {
            counts.merge(each, 1, Integer::sum);
        }
        StringBuilder built = new StringBuilder();
        for (String word : text.split(" ")) {
            built.append(word).append(String.format("%d", counts.size()));
        }
        Set<Long> seen = new TreeSet<>(numbers);
        List<Long> sorted = new ArrayList<>(numbers);
        Collections.sort(sorted);
        sorted.sort(Comparator.comparing((Long each) -> -each).thenComparing(Comparator.naturalOrder()));
        String joined = seen.stream().filter(each -> each > 0).map(String::valueOf).collect(Collectors.joining(","));
        return IntStream.range(0, sorted.size()).mapToObj(i -> sorted.get(i) + joined.length() + built.length())
                .sorted().collect(Collectors.toList());
    }
}
