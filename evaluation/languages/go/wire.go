// Package wire reads one case a line on descriptor 3 and writes one frame a line on descriptor 4.
//
// It shares its process with the answer, so nothing that it writes is trusted: it can only report values.
package wire

import (
	"math"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf16"
	"unicode/utf8"
)

const limit = 2000

// A Codec reads and writes values of one type in their JSON form.
type Codec[T any] struct {
	Read  func(*Reader) T
	Write func(*Writer, T)
}

type unfit string

// Reader reads the JSON that the judge writes, which is always well-formed.
type Reader struct {
	data []byte
	at   int
}

func (r *Reader) peek() byte {
	for r.data[r.at] == ' ' {
		r.at++
	}
	return r.data[r.at]
}

// Skip passes over one character: a bracket, a comma, a colon.
func (r *Reader) Skip() {
	r.peek()
	r.at++
}

func (r *Reader) word() string {
	r.peek()
	start := r.at
	for !strings.ContainsRune(" ,:]}", rune(r.data[r.at])) {
		r.at++
	}
	return string(r.data[start:r.at])
}

func (r *Reader) text() string {
	r.Skip()
	var out []byte
	for r.data[r.at] != '"' {
		if r.data[r.at] != '\\' {
			out = append(out, r.data[r.at])
			r.at++
			continue
		}
		escape := r.data[r.at+1]
		r.at += 2
		if escape == 'u' {
			out = utf8.AppendRune(out, r.escaped())
		} else {
			out = append(out, map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '"': '"', '\\': '\\'}[escape])
		}
	}
	r.at++
	return string(out)
}

func (r *Reader) escaped() rune {
	first := r.unit()
	if utf16.IsSurrogate(first) && r.data[r.at] == '\\' {
		r.at += 2
		return utf16.DecodeRune(first, r.unit())
	}
	return first
}

func (r *Reader) unit() rune {
	value, _ := strconv.ParseUint(string(r.data[r.at:r.at+4]), 16, 32)
	r.at += 4
	return rune(value)
}

func (r *Reader) items(read func()) {
	r.Skip()
	for r.peek() != ']' {
		if r.data[r.at] == ',' {
			r.at++
		}
		read()
	}
	r.at++
}

// Writer collects one frame.
type Writer struct {
	data []byte
}

// Put writes JSON as it is.
func (w *Writer) Put(text string) {
	w.data = append(w.data, text...)
}

func (w *Writer) text(value string) {
	w.Put(`"`)
	for _, char := range value {
		switch {
		case char == '"' || char == '\\':
			w.data = append(w.data, '\\', byte(char))
		case char < ' ':
			w.Put(`\u00`)
			w.data = append(w.data, "0123456789abcdef"[char>>4], "0123456789abcdef"[char&15])
		default:
			w.data = utf8.AppendRune(w.data, char)
		}
	}
	w.Put(`"`)
}

// The codecs of simple types.
var (
	Bool = Codec[bool]{
		func(r *Reader) bool { return r.word() == "true" },
		func(w *Writer, value bool) { w.data = strconv.AppendBool(w.data, value) },
	}
	Int = Codec[int]{
		func(r *Reader) int { value, _ := strconv.Atoi(r.text()); return value },
		func(w *Writer, value int) { w.text(strconv.Itoa(value)) },
	}
	Float = Codec[float64]{readFloat, writeFloat}
	Str   = Codec[string]{
		func(r *Reader) string { return r.text() },
		func(w *Writer, value string) {
			if !utf8.ValidString(value) {
				panic(unfit("a string that is not valid UTF-8"))
			}
			w.text(value)
		},
	}
)

func readFloat(r *Reader) float64 {
	if r.peek() != '"' {
		value, _ := strconv.ParseFloat(r.word(), 64)
		return value
	}
	value, _ := strconv.ParseFloat(r.text(), 64) // "nan", "inf", "-inf", "-0"
	return value
}

func writeFloat(w *Writer, value float64) {
	switch {
	case math.IsNaN(value):
		w.text("nan")
	case math.IsInf(value, 1):
		w.text("inf")
	case math.IsInf(value, -1):
		w.text("-inf")
	case value == 0 && math.Signbit(value):
		w.text("-0")
	default:
		w.data = strconv.AppendFloat(w.data, value, 'g', -1, 64)
	}
}

// List is the codec of a slice; nil is an empty one.
func List[T any](item Codec[T]) Codec[[]T] {
	return Codec[[]T]{
		func(r *Reader) []T {
			values := []T{}
			r.items(func() { values = append(values, item.Read(r)) })
			return values
		},
		func(w *Writer, values []T) {
			w.Put("[")
			for position, value := range values {
				if position > 0 {
					w.Put(",")
				}
				item.Write(w, value)
			}
			w.Put("]")
		},
	}
}

// Dict is the codec of a map; nil is an empty one.
func Dict[K comparable, V any](key Codec[K], value Codec[V]) Codec[map[K]V] {
	return Codec[map[K]V]{
		func(r *Reader) map[K]V {
			values := map[K]V{}
			r.items(func() {
				r.Skip()
				name := key.Read(r)
				r.Skip()
				values[name] = value.Read(r)
				r.Skip()
			})
			return values
		},
		func(w *Writer, values map[K]V) {
			separator := "[["
			for name, item := range values {
				w.Put(separator)
				key.Write(w, name)
				w.Put(",")
				value.Write(w, item)
				separator = "],["
			}
			if len(values) == 0 {
				w.Put("[]")
			} else {
				w.Put("]]")
			}
		},
	}
}

// Optional is the codec of a pointer.
func Optional[T any](item Codec[T]) Codec[*T] {
	return Codec[*T]{
		func(r *Reader) *T {
			if r.peek() == 'n' {
				r.word()
				return nil
			}
			value := item.Read(r)
			return &value
		},
		func(w *Writer, value *T) {
			if value == nil {
				w.Put("null")
			} else {
				item.Write(w, *value)
			}
		},
	}
}

// Serve answers every case by `call`, which reads the arguments, calls the answer and writes its result.
func Serve(call func(*Reader, *Writer)) {
	send([]byte(`{"ready":true}`))
	var unread []byte
	chunk := make([]byte, 65536)
	for {
		end := strings.IndexByte(string(unread), '\n')
		if end >= 0 {
			send(frame(call, unread[:end+1]))
			unread = unread[end+1:]
			continue
		}
		size, err := syscall.Read(3, chunk)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || size <= 0 {
			return
		}
		unread = append(unread, chunk[:size]...)
	}
}

func frame(call func(*Reader, *Writer), line []byte) (data []byte) {
	r := &Reader{data: line}
	r.Skip()
	r.text()
	r.Skip()
	head := `{"id":` + r.word()
	r.Skip()
	r.text()
	r.Skip()
	defer func() {
		if fault := recover(); fault != nil {
			w := &Writer{}
			w.Put(head)
			if reason, ok := fault.(unfit); ok {
				w.Put(`,"bad":`)
				w.text(string(reason))
			} else {
				w.Put(`,"raised":{"summary":`)
				w.text(cut(described(fault)))
				w.Put(`,"trace":`)
				w.text(cut(trace()))
				w.Put("}")
			}
			w.Put("}")
			data = w.data
		}
	}()
	w := &Writer{}
	w.Put(head + `,"result":`)
	call(r, w)
	w.Put("}")
	return w.data
}

func described(fault any) (text string) {
	defer func() {
		if recover() != nil {
			text = "panic: an error that cannot be shown"
		}
	}()
	switch value := fault.(type) {
	case error:
		return "panic: " + value.Error()
	case string:
		return "panic: " + value
	case int:
		return "panic: " + strconv.Itoa(value)
	case interface{ String() string }:
		return "panic: " + value.String()
	}
	return "panic"
}

// trace names the lines of the answer that were running, the innermost first.
func trace() string {
	counters := make([]uintptr, 100)
	frames := runtime.CallersFrames(counters[:runtime.Callers(3, counters)])
	var lines []string
	for more := true; more; {
		var each runtime.Frame
		each, more = frames.Next()
		if each.File == "answer.go" {
			lines = append(lines, each.File+":"+strconv.Itoa(each.Line)+" in "+strings.TrimPrefix(each.Function, "answer."))
		}
	}
	return strings.Join(lines, "\n")
}

func cut(text string) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "?")
}

func send(data []byte) {
	for data = append(data, '\n'); len(data) > 0; {
		size, err := syscall.Write(4, data)
		if err != nil && err != syscall.EINTR {
			return
		}
		data = data[max(size, 0):]
	}
}
