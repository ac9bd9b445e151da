package main

import (
	"fmt"
	"os"
	"strings"
)

// expectations are the skips that do not count as failures.
type expectations struct{ tests []string }

// readExpectations reads the file of expected skips. env looks up environment variables.
func readExpectations(path string, env func(string) string) (*expectations, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the expected skips: %w", err)
	}
	var e expectations
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 || !strings.Contains(fields[0], ".Test") {
			return nil, fmt.Errorf("reading the expected skips: %s:%d says %q, want PACKAGE.TEST VARIABLE why", path, i+1, line)
		}
		if fields[1] == "-" || env(fields[1]) == "" {
			e.tests = append(e.tests, fields[0])
		}
	}
	return &e, nil
}

// allow reports whether a skip is expected. Parts of a test go by its top name.
func (e *expectations) allow(test string) bool {
	top := test
	if slash := strings.LastIndex(test, ".Test"); slash >= 0 {
		name, _, _ := strings.Cut(test[slash:], "/")
		top = test[:slash] + name
	}
	for _, want := range e.tests {
		if top == want || strings.HasSuffix(top, "/"+want) {
			return true
		}
	}
	return false
}
