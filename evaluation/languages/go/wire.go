// Package wire reads one case a line on descriptor 3 and writes one frame a line on descriptor 4.
//
// It shares its process with the answer, so nothing that it writes is trusted: it can only report values.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

const limit = 2000

var cases, frames = os.NewFile(3, "cases"), os.NewFile(4, "frames")

type unfit string

// Serve answers every case by a function with the types of the signature.
func Serve(function any) {
	send(map[string]any{"ready": true})
	for lines := bufio.NewReader(cases); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		send(answer(reflect.ValueOf(function), line))
	}
}

func send(frame map[string]any) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data) // ends a frame with a newline
	encoder.SetEscapeHTML(false)      // six bytes for each < would make a long text too long
	encoder.Encode(frame)
	frames.Write(data.Bytes())
}

func answer(function reflect.Value, line []byte) (frame map[string]any) {
	var given struct {
		ID   int
		Args []any
	}
	json.Unmarshal(line, &given)
	frame = map[string]any{"id": given.ID}
	defer func() {
		if fault := recover(); fault != nil {
			if reason, ok := fault.(unfit); ok {
				frame["bad"] = string(reason)
			} else {
				frame["raised"] = map[string]string{"summary": cut(fmt.Sprintf("panic: %v", fault)), "trace": cut(trace())}
			}
		}
	}()
	args := make([]reflect.Value, len(given.Args))
	for position, form := range given.Args {
		args[position] = decode(form, function.Type().In(position))
	}
	if results := function.Call(args); len(results) > 0 {
		frame["result"] = encode(results[0])
	} else {
		frame["result"] = nil
	}
	return frame
}

// decode makes a value of the type from its JSON form.
func decode(form any, kind reflect.Type) reflect.Value {
	value := reflect.New(kind).Elem()
	switch kind.Kind() {
	case reflect.Int:
		number, _ := strconv.ParseInt(form.(string), 10, 64)
		value.SetInt(number)
	case reflect.Float64:
		number, ok := form.(float64)
		if !ok {
			number, _ = strconv.ParseFloat(form.(string), 64) // "nan", "inf", "-inf", "-0"
		}
		value.SetFloat(number)
	case reflect.Pointer:
		if form != nil {
			value.Set(reflect.New(kind.Elem()))
			value.Elem().Set(decode(form, kind.Elem()))
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(kind, 0, 0))
		for _, item := range form.([]any) {
			value.Set(reflect.Append(value, decode(item, kind.Elem())))
		}
	case reflect.Array:
		for position, item := range form.([]any) {
			value.Index(position).Set(decode(item, kind.Elem()))
		}
	case reflect.Struct:
		for position, item := range form.([]any) {
			value.Field(position).Set(decode(item, kind.Field(position).Type))
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(kind))
		for _, item := range form.([]any) {
			pair := item.([]any)
			value.SetMapIndex(decode(pair[0], kind.Key()), decode(pair[1], kind.Elem()))
		}
	default:
		value.Set(reflect.ValueOf(form))
	}
	return value
}

// encode makes the JSON form of a value; a nil slice or map is an empty one.
func encode(value reflect.Value) any {
	items := []any{}
	switch value.Kind() {
	case reflect.Int:
		return strconv.FormatInt(value.Int(), 10)
	case reflect.Float64:
		return encodeFloat(value.Float())
	case reflect.String:
		if !utf8.ValidString(value.String()) {
			panic(unfit("a string that is not valid UTF-8"))
		}
		return value.String()
	case reflect.Pointer:
		if value.IsNil() {
			return nil
		}
		return encode(value.Elem())
	case reflect.Slice, reflect.Array:
		for position := range value.Len() {
			items = append(items, encode(value.Index(position)))
		}
		return items
	case reflect.Struct:
		for position := range value.NumField() {
			items = append(items, encode(value.Field(position)))
		}
		return items
	case reflect.Map:
		for pairs := value.MapRange(); pairs.Next(); {
			items = append(items, []any{encode(pairs.Key()), encode(pairs.Value())})
		}
		return items
	}
	return value.Bool()
}

func encodeFloat(value float64) any {
	switch {
	case math.IsNaN(value):
		return "nan"
	case math.IsInf(value, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(value, 'g', -1, 64), "+"))
	case value == 0 && math.Signbit(value):
		return "-0"
	}
	return value
}

// trace names the lines of the answer that were running, the innermost first.
func trace() string {
	counters := make([]uintptr, 100)
	running := runtime.CallersFrames(counters[:runtime.Callers(3, counters)])
	var lines []string
	for more := true; more; {
		var each runtime.Frame
		each, more = running.Next()
		if each.File == "answer.go" {
			lines = append(lines, each.File+":"+strconv.Itoa(each.Line)+" in "+strings.TrimPrefix(each.Function, "answer."))
		}
	}
	return strings.Join(lines, "\n")
}

func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "?")
}
