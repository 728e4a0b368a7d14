//! Reads a case from each line on descriptor 3, calls the answer, and writes one line each on descriptor 4. It shares
//! its process with the answer, so nothing that it writes is trusted: it can only report values.
//!
//! It is compiled once and bound read-only.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::io::FromRawFd;
use std::panic;

/// What is left of a line of JSON; this service wrote it, so it is well-formed.
pub struct Line<'a>(&'a str);

impl<'a> Line<'a> {
    /// The next argument.
    pub fn next<T: Form>(&mut self) -> T {
        T::read(self)
    }

    fn take(&mut self, wanted: &str) -> bool {
        self.0 = self.0.trim_start_matches(|c| c == ' ' || c == ',' || c == ':');
        let found = self.0.strip_prefix(wanted);
        self.0 = found.unwrap_or(self.0);
        found.is_some()
    }

    fn take_until(&mut self, ends: &[char]) -> &'a str {
        let (taken, rest) = self.0.split_at(self.0.find(ends).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn take_text(&mut self) -> String {
        let mut units: Vec<u16> = Vec::new();
        self.take("\"");
        let mut chars = self.0.chars();
        while let Some(c) = chars.next() {
            if c == '"' {
                break;
            }
            let escaped = if c == '\\' { chars.next() } else { None };
            if escaped == Some('u') {
                units.push(u16::from_str_radix(&chars.as_str()[..4], 16).unwrap());
                chars = chars.as_str()[4..].chars();
                continue;
            }
            let c = match escaped {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => c,
            };
            units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
        }
        self.0 = chars.as_str();
        String::from_utf16_lossy(&units)
    }
}

/// A type that a signature may declare.
pub trait Form: Sized {
    fn read(line: &mut Line) -> Self;
    fn write(&self, out: &mut String);
}

impl Form for bool {
    fn read(line: &mut Line) -> Self {
        line.take("true") || !line.take("false")
    }
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl Form for i64 {
    fn read(line: &mut Line) -> Self {
        line.take_text().parse().expect("an int of the case does not fit i64")
    }
    fn write(&self, out: &mut String) {
        out.push_str(&format!("\"{}\"", self));
    }
}

impl Form for f64 {
    fn read(line: &mut Line) -> Self {
        line.take("");
        let text = if line.0.starts_with('"') { line.take_text() } else { line.take_until(&[',', ']', '}']).to_string() };
        text.parse().unwrap()
    }
    fn write(&self, out: &mut String) {
        if self.is_nan() {
            out.push_str("\"nan\"");
        } else if self.is_infinite() || (*self == 0.0 && self.is_sign_negative()) {
            out.push_str(&format!("\"{}\"", self));
        } else {
            out.push_str(&format!("{:?}", self));
        }
    }
}

impl Form for String {
    fn read(line: &mut Line) -> Self {
        line.take_text()
    }
    fn write(&self, out: &mut String) {
        out.push('"');
        for c in self.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

impl Form for () {
    fn read(line: &mut Line) -> Self {
        line.take("null");
    }
    fn write(&self, out: &mut String) {
        out.push_str("null");
    }
}

impl<T: Form> Form for Vec<T> {
    fn read(line: &mut Line) -> Self {
        let mut values = Vec::new();
        line.take("[");
        while !line.take("]") {
            values.push(T::read(line));
        }
        values
    }
    fn write(&self, out: &mut String) {
        out.push('[');
        for (position, value) in self.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            value.write(out);
        }
        out.push(']');
    }
}

impl<K: Form + Eq + Hash, V: Form> Form for HashMap<K, V> {
    fn read(line: &mut Line) -> Self {
        Vec::<(K, V)>::read(line).into_iter().collect()
    }
    fn write(&self, out: &mut String) {
        let mut separator = "[";
        for (key, value) in self {
            out.push_str(separator);
            out.push('[');
            key.write(out);
            out.push(',');
            value.write(out);
            out.push(']');
            separator = ",";
        }
        out.push_str(if separator == "[" { "[]" } else { "]" });
    }
}

impl<T: Form> Form for Option<T> {
    fn read(line: &mut Line) -> Self {
        if line.take("null") { None } else { Some(T::read(line)) }
    }
    fn write(&self, out: &mut String) {
        match self {
            Some(value) => value.write(out),
            None => out.push_str("null"),
        }
    }
}

macro_rules! tuples {
    ($($first:ident $($rest:ident)*)?) => {$(
        impl<$first: Form, $($rest: Form),*> Form for ($first, $($rest),*) {
            fn read(line: &mut Line) -> Self {
                line.take("[");
                let values = ($first::read(line), $($rest::read(line)),*);
                line.take("]");
                values
            }
            #[allow(non_snake_case)]
            fn write(&self, out: &mut String) {
                let ($first, $($rest),*) = self;
                out.push('[');
                $first.write(out);
                $(out.push(','); $rest.write(out);)*
                out.push(']');
            }
        }
        tuples!($($rest)*);
    )?};
}
tuples!(A B C D E F G H I J K L);

thread_local!(static PANIC: RefCell<String> = RefCell::new(String::new()));

fn payload_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a value")
}

fn send(channel: &mut File, frame: &str) {
    channel.write_all(frame.as_bytes()).expect("nobody reads the answers");
}

/// Answers every case. `answer` reads the arguments and writes the result.
pub fn serve(answer: fn(&mut Line, &mut String)) {
    panic::set_hook(Box::new(|info| {
        let at = info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        let text: String = payload_text(info.payload()).chars().take(1000).collect();
        PANIC.with(|last| *last.borrow_mut() = format!("panicked{}: {}", at, text));
    }));
    let (cases, mut channel) = unsafe { (File::from_raw_fd(3), File::from_raw_fd(4)) };
    send(&mut channel, "{\"ready\":true}\n");
    for case in BufReader::new(cases).lines() {
        let case = case.expect("the cases cannot be read");
        let mut line = Line(&case);
        line.take("{\"id\"");
        line.take("");
        let id = line.take_until(&[',']);
        line.take("\"args\"");
        line.take("[");
        let mut out = format!("{{\"id\":{},\"result\":", id);
        let done = panic::catch_unwind(panic::AssertUnwindSafe(|| answer(&mut line, &mut out)));
        if done.is_err() {
            out = format!("{{\"id\":{},\"raised\":{{\"trace\":\"\",\"summary\":", id);
            PANIC.with(|last| last.borrow().write(&mut out));
            out.push('}');
        }
        out.push_str("}\n");
        send(&mut channel, &out);
    }
    std::process::exit(0);
}
