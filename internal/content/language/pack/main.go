// Command pack writes the models of languages into a file, which programs look for beside themselves. It takes them
// from lingua-go's module, where Go keeps modules.
//
//	go run ./internal/content/language/pack bin/languages.zip
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/content/language"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, the file to write")
	}
	var problem strings.Builder
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", language.Module)
	list.Stderr = &problem
	folder, err := list.Output()
	if err != nil {
		return fmt.Errorf("asking Go where %s is, which `go mod download` fetches: %w: %s", language.Module, err, strings.TrimSpace(problem.String()))
	}
	models := filepath.Join(strings.TrimSpace(string(folder)), language.Folder)
	return atomicfile.Write(args[0], 0o644, func(w io.Writer) error { return language.Pack(w, models) })
}
