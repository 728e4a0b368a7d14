// floor_division
fn floor_division(a: i64, b: i64) -> i64 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}
// trap
fn floor_division(a: i64, b: i64) -> i64 { a.div_euclid(b) }
// modulo
fn modulo(a: i64, b: i64) -> i64 { ((a % b) + b) % b }
// trap
fn modulo(a: i64, b: i64) -> i64 { a.rem_euclid(b) }
// half_to_even
fn half_to_even(x: f64) -> i64 {
    if (x - x.trunc()).abs() == 0.5 { (2.0 * (x / 2.0).round()) as i64 } else { x.round() as i64 }
}
// trap
fn half_to_even(x: f64) -> i64 { x.round() as i64 }
// sort_numbers
fn sort_numbers(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort();
    numbers
}
// trap
fn sort_numbers(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_by_key(|n| n.to_string());
    numbers
}
// sort_by_length
fn sort_by_length(mut words: Vec<String>) -> Vec<String> {
    words.sort_by_key(|word| word.chars().count());
    words
}
// trap
fn sort_by_length(mut words: Vec<String>) -> Vec<String> {
    words.sort_by(|a, b| (a.len(), b).cmp(&(b.len(), a)));
    words
}
// reverse_letters
fn reverse_letters(text: String) -> String { text.chars().rev().collect() }
// trap
fn reverse_letters(text: String) -> String { text.bytes().rev().map(|b| b as char).collect() }
// count_letters
fn count_letters(text: String) -> i64 { text.chars().count() as i64 }
// trap
fn count_letters(text: String) -> i64 { text.len() as i64 }
// last_of
fn last_of(numbers: Vec<i64>, n: i64) -> Vec<i64> { numbers[numbers.len().saturating_sub(n as usize)..].to_vec() }
// trap
fn last_of(numbers: Vec<i64>, n: i64) -> Vec<i64> { numbers[numbers.len() - n as usize..].to_vec() }
// product
fn product(numbers: Vec<i64>) -> i64 { numbers.iter().product() }
// trap
fn product(numbers: Vec<i64>) -> i64 { numbers.iter().map(|&n| n as i32).product::<i32>() as i64 }
// sum_of_squares
fn sum_of_squares(n: i64) -> i64 { (0..=n).map(|i| i * i).sum() }
// trap
fn sum_of_squares(n: i64) -> i64 { (0..=n as i32).map(|i| i.wrapping_mul(i)).fold(0, i32::wrapping_add) as i64 }
// mean
fn mean(numbers: Vec<f64>) -> f64 { numbers.iter().sum::<f64>() / numbers.len() as f64 }
// trap
fn mean(numbers: Vec<f64>) -> f64 { (numbers.iter().sum::<f64>() as i64 / numbers.len() as i64) as f64 }
// first_or_none
fn first_or_none(numbers: Vec<i64>) -> Option<i64> { numbers.first().copied() }
// trap
fn first_or_none(numbers: Vec<i64>) -> Option<i64> { Some(numbers[0]) }
// divide
fn divide(a: f64, b: f64) -> f64 { a / b }
// trap
fn divide(a: f64, b: f64) -> f64 { (a as i64 / b as i64) as f64 }
// not_a_number
fn not_a_number(x: f64) -> bool { x.is_nan() }
// trap
fn not_a_number(x: f64) -> bool { x == f64::NAN }
// counts
use std::collections::HashMap;
fn counts(words: Vec<String>) -> HashMap<String, i64> {
    let mut found = HashMap::new();
    for word in words {
        *found.entry(word).or_insert(0) += 1;
    }
    found
}
// trap
use std::collections::HashMap;
fn counts(words: Vec<String>) -> HashMap<String, i64> { words.into_iter().map(|word| (word, 1)).collect() }
// by_number
fn by_number(numbers: Vec<i64>) -> HashMap<i64, String> {
    numbers.into_iter().map(|n| (n, if n % 2 == 0 { "even" } else { "odd" }.to_string())).collect()
}
// trap
fn by_number(numbers: Vec<i64>) -> HashMap<i64, String> {
    numbers.into_iter().map(|n| (n, if n % 2 == 1 { "odd" } else { "even" }.to_string())).collect()
}
// min_and_max
fn min_and_max(numbers: Vec<i64>) -> (i64, i64) { (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap()) }
// trap
fn min_and_max(numbers: Vec<i64>) -> (i64, i64) { numbers.iter().fold((0, 0), |(a, b), &n| (a.min(n), b.max(n))) }
// root
fn root(n: i64) -> i64 {
    assert!(n >= 0, "negative");
    (n as f64).sqrt() as i64
}
// trap
fn root(n: i64) -> i64 { (n as f64).sqrt() as i64 }
// compare_versions
fn compare_versions(a: String, b: String) -> i64 {
    let numbers = |text: String| text.split('.').map(|part| part.parse().unwrap()).collect::<Vec<i64>>();
    numbers(a).cmp(&numbers(b)) as i64
}
// trap
fn compare_versions(a: String, b: String) -> i64 { a.cmp(&b) as i64 }
// title
fn title(text: String) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let first = out.is_empty() || out.ends_with(' ');
        out.push(if first { c.to_ascii_uppercase() } else { c });
    }
    out
}
// trap
fn title(text: String) -> String {
    let words = text.split_whitespace().map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect::<Vec<_>>().join(" ")
}
