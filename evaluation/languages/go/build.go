// Command build compiles and links the program in the current folder with the tools in the folder of its argument.
//
// It reads the answer in program.go. As editors do when a file is saved, it adds imports of the standard library that
// are missing and removes those that are not used; every line keeps its number.
package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

var version = regexp.MustCompile(`^v\d+$`)

func main() {
	tools := os.Args[1]
	configuration, err := os.ReadFile(tools + "/importcfg")
	check(err)
	source, err := os.ReadFile("program.go")
	check(err)
	check(os.WriteFile("answer.go", corrected(inPackage(source), known(string(configuration))), 0o644))
	folder, err := os.Getwd()
	check(err)
	compile := []string{tools + "/compile", "-complete", "-pack", "-dwarf=false", "-trimpath", folder, "-importcfg", tools + "/importcfg"}
	run(append(compile, "-p", "answer", "-o", "answer.a", "answer.go", "driver.go"))
	run(append(compile, "-p", "main", "-o", "main.a", tools+"/main.go"))
	run([]string{tools + "/link", "-s", "-w", "-buildmode=exe", "-importcfg", tools + "/importcfg", "-o", "program", "main.a"})
}

func check(err error) {
	if err != nil {
		os.Stderr.WriteString("build: " + err.Error() + "\n")
		os.Exit(3)
	}
}

func run(words []string) {
	process, err := syscall.ForkExec(words[0], words, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	check(err)
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(process, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	check(err)
	if status.Signaled() {
		os.Stderr.WriteString(path.Base(words[0]) + " was ended by a signal: " + status.Signal().String() + "\n")
	}
	if status != 0 {
		os.Exit(1)
	}
}

// known maps the names of packages to their import paths; of two with the same name the first counts.
func known(configuration string) map[string]string {
	paths := map[string]string{}
	for _, line := range strings.Split(configuration, "\n") {
		found, _, _ := strings.Cut(strings.TrimPrefix(line, "packagefile "), "=")
		if _, taken := paths[nameOf(found)]; !taken && !strings.Contains(found, "internal") && !strings.Contains(found, "vendor") {
			paths[nameOf(found)] = found
		}
	}
	return paths
}

func nameOf(importPath string) string {
	if name := path.Base(importPath); !version.MatchString(name) {
		return name
	}
	return path.Base(path.Dir(importPath))
}

// inPackage makes the text a file of the package `answer`.
func inPackage(source []byte) []byte {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	var tokens scanner.Scanner
	tokens.Init(file, source, func(token.Position, string) {}, 0)
	_, kind, _ := tokens.Scan()
	if kind != token.PACKAGE {
		return append([]byte("package answer; "), source...)
	}
	at, kind, name := tokens.Scan()
	if kind != token.IDENT {
		return source
	}
	start := file.Offset(at)
	return slices.Concat(source[:start], []byte("answer"), source[start+len(name):])
}

func corrected(source []byte, known map[string]string) []byte {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, 0)
	if err != nil {
		return source // the compiler says what is wrong
	}
	used := packagesUsed(file)
	source = slices.Clone(source)
	blank := func(node ast.Node) {
		for at := set.Position(node.Pos()).Offset; at < set.Position(node.End()).Offset; at++ {
			if source[at] != '\n' {
				source[at] = ' '
			}
		}
	}
	for _, declaration := range file.Decls {
		imports, ok := declaration.(*ast.GenDecl)
		if !ok || imports.Tok != token.IMPORT {
			continue
		}
		for _, each := range imports.Specs {
			spec := each.(*ast.ImportSpec)
			importPath, _ := strconv.Unquote(spec.Path.Value)
			name := nameOf(importPath)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			switch {
			case used[name]:
				delete(used, name)
			case name == "_" || name == "." || name == "C":
			case imports.Lparen.IsValid():
				blank(spec)
			default:
				blank(imports)
			}
		}
	}
	var missing []string
	for name := range used {
		if importPath, ok := known[name]; ok {
			missing = append(missing, "; import "+strconv.Quote(importPath))
		}
	}
	slices.Sort(missing)
	end := set.Position(file.Name.End()).Offset
	return slices.Concat(source[:end], []byte(strings.Join(missing, "")), source[end:])
}

// packagesUsed are the names before a dot that the file does not declare.
func packagesUsed(file *ast.File) map[string]bool {
	before := map[*ast.Ident]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok {
				before[name] = true
			}
		}
		return true
	})
	used := map[string]bool{}
	for _, name := range file.Unresolved {
		if before[name] {
			used[name.Name] = true
		}
	}
	return used
}
