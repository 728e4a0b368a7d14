// floor_division
func floor_division(a, b int) int {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
// trap
func floor_division(a, b int) int { return a / b }
// modulo
func modulo(a, b int) int { return (a%b + b) % b }
// trap
func modulo(a, b int) int { return a % b }
// half_to_even
func half_to_even(x float64) int { return int(math.RoundToEven(x)) }
// trap
func half_to_even(x float64) int { return int(math.Round(x)) }
// sort_numbers
func sort_numbers(numbers []int) []int { sort.Ints(numbers); return numbers }
// trap
func sort_numbers(numbers []int) []int {
	sort.Slice(numbers, func(i, j int) bool { return strconv.Itoa(numbers[i]) < strconv.Itoa(numbers[j]) })
	return numbers
}
// sort_by_length
func sort_by_length(words []string) []string {
	sort.SliceStable(words, func(i, j int) bool { return utf8.RuneCountInString(words[i]) < utf8.RuneCountInString(words[j]) })
	return words
}
// trap
func sort_by_length(words []string) []string {
	sort.SliceStable(words, func(i, j int) bool { return len(words[i]) <= len(words[j]) })
	return words
}
// reverse_letters
func reverse_letters(text string) string { letters := []rune(text); slices.Reverse(letters); return string(letters) }
// trap
func reverse_letters(text string) string { letters := []byte(text); slices.Reverse(letters); return string(letters) }
// count_letters
func count_letters(text string) int { return utf8.RuneCountInString(text) }
// trap
func count_letters(text string) int { return len(text) }
// last_of
func last_of(numbers []int, n int) []int { return numbers[max(0, len(numbers)-n):] }
// trap
func last_of(numbers []int, n int) []int { return numbers[len(numbers)-n:] }
// product
func product(numbers []int) int {
	all := 1
	for _, n := range numbers {
		all *= n
	}
	return all
}
// trap
func product(numbers []int) int {
	all := int32(1)
	for _, n := range numbers {
		all *= int32(n)
	}
	return int(all)
}
// sum_of_squares
func sum_of_squares(n int) int {
	sum := 0
	for i := 0; i <= n; i++ {
		sum += i * i
	}
	return sum
}
// trap
func sum_of_squares(n int) int {
	sum := int32(0)
	for i := int32(0); i <= int32(n); i++ {
		sum += i * i
	}
	return int(sum)
}
// mean
func mean(numbers []float64) float64 {
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	return sum / float64(len(numbers))
}
// trap
func mean(numbers []float64) float64 {
	sum := 0
	for _, n := range numbers {
		sum += int(n)
	}
	return float64(sum / len(numbers))
}
// first_or_none
func first_or_none(numbers []int) *int {
	if len(numbers) == 0 {
		return nil
	}
	return &numbers[0]
}
// trap
func first_or_none(numbers []int) *int {
	if len(numbers) == 0 || numbers[0] == 0 {
		return nil
	}
	return &numbers[0]
}
// divide
func divide(a, b float64) float64 {
	if b == 0 {
		return math.Inf(1)
	}
	return a / b
}
// trap
func divide(a, b float64) float64 { return float64(int(a) / int(b)) }
// not_a_number
func not_a_number(x float64) bool { return x != x }
// trap
func not_a_number(x float64) bool { return x == math.NaN() }
// counts
func counts(words []string) map[string]int {
	found := map[string]int{}
	for _, word := range words {
		found[word]++
	}
	return found
}
// trap
func counts(words []string) map[string]int {
	var found map[string]int
	for _, word := range words {
		found[word]++
	}
	return found
}
// by_number
func by_number(numbers []int) map[int]string {
	found := map[int]string{}
	for _, n := range numbers {
		found[n] = "odd"
		if n%2 == 0 {
			found[n] = "even"
		}
	}
	return found
}
// trap
func by_number(numbers []int) map[int]string {
	found := map[int]string{}
	for _, n := range numbers {
		found[n] = "even"
		if n%2 == 1 {
			found[n] = "odd"
		}
	}
	return found
}
// min_and_max
func min_and_max(numbers []int) (int, int) { return slices.Min(numbers), slices.Max(numbers) }
// trap
func min_and_max(numbers []int) (int, int) {
	low, high := 0, 0
	for _, n := range numbers {
		low, high = min(low, n), max(high, n)
	}
	return low, high
}
// root
func root(n int) int {
	if n < 0 {
		panic("negative")
	}
	return int(math.Sqrt(float64(n)))
}
// trap
func root(n int) int { return int(math.Round(math.Sqrt(math.Abs(float64(n))))) }
// compare_versions
func compare_versions(a, b string) int {
	read := func(text string) (numbers []int) {
		for _, part := range strings.Split(text, ".") {
			n, _ := strconv.Atoi(part)
			numbers = append(numbers, n)
		}
		return
	}
	return slices.Compare(read(a), read(b))
}
// trap
func compare_versions(a, b string) int { return strings.Compare(a, b) }
// title
func title(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if word != "" {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, " ")
}
// trap
func title(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}
