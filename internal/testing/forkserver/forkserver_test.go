//go:build cgo && linux

package forkserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

const does = "FORKSERVER_TEST_DOES"

func TestMain(m *testing.M) {
	switch os.Getenv(does) {
	case "":
		os.Exit(m.Run())
	case "tell":
		folder, err := os.Getwd()
		fmt.Println(len(os.Environ()), os.Getenv("ONE"), folder, os.Getpid(), len(os.Args), rand.Uint64(), err)
		fmt.Fprintln(os.Stderr, "beside it")
		os.Exit(3)
	case "wait":
		fmt.Println("begun")
		select {}
	case "read":
		text, err := io.ReadAll(os.Stdin)
		fmt.Println(len(text), err)
	}
}

// serve starts a server from a thread that lasts.
func serve(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	socket := must.Get(Serve(t.Context()))(t)
	return socket
}

func startWith(t *testing.T, socket string, env ...string) (p *Process, output *os.File) {
	t.Helper()
	output, in := must.Get2(os.Pipe())(t)
	t.Cleanup(func() { output.Close() })
	p = must.Get(Start(socket, env, in, in))(t)
	in.Close()
	return p, output
}

// TestProcessesAreTheirOwn starts processes with a variable, in a folder. Each tells what it has, and its random
// number.
func TestProcessesAreTheirOwn(t *testing.T) {
	socket := serve(t)
	folder := t.TempDir()
	t.Chdir(folder)
	numbers := map[string]bool{}
	for i := range 3 {
		p, output := startWith(t, socket, does+"=tell", "ONE=first", fmt.Sprintf("ONE=%d", i))
		text, err := io.ReadAll(output)
		must.Do(t, err)
		if err = p.Wait(); !errors.Is(err, ExitError(3)) {
			t.Errorf("the process ended with %v, want exit status 3", err)
		}
		told, beside, _ := strings.Cut(string(text), "\n")
		var variables, arguments, pid int
		var one, where, number, failed string
		if _, err = fmt.Sscan(told, &variables, &one, &where, &pid, &arguments, &number, &failed); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if variables != 2 || one != strconv.Itoa(i) || where != folder || pid != p.Pid || arguments != 1 || failed != "<nil>" || beside != "beside it\n" {
			t.Errorf("process %d tells %q, want its two variables, its folder and its id", p.Pid, text)
		}
		numbers[number] = true
	}
	if len(numbers) != 3 {
		t.Errorf("the random numbers are %v, want another for each process", numbers)
	}
}

// TestProcessesEnd kills a process, stops one by its signal, and leaves one whose caller goes away.
func TestProcessesEnd(t *testing.T) {
	socket := serve(t)
	for signal, want := range map[syscall.Signal]string{syscall.SIGKILL: "signal: killed", syscall.SIGTERM: "signal: terminated"} {
		p, output := startWith(t, socket, does+"=wait")
		begun(t, output)
		must.Do(t, p.Signal(signal))
		if err := p.Wait(); err == nil || err.Error() != want {
			t.Errorf("the process ended with %v, want %s", err, want)
		}
		if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a signal for a process that has ended gives %v, want %v", err, os.ErrProcessDone)
		}
	}
	p, output := startWith(t, socket, does+"=wait")
	begun(t, output)
	must.Do(t, p.connection.Close())
	if rest, err := io.ReadAll(output); err != nil || len(rest) != 0 {
		t.Errorf("the output ends with %q, %v, want the end", rest, err)
	}
	p, output = startWith(t, socket, does+"=read")
	if text, err := io.ReadAll(output); err != nil || string(bytes.TrimSpace(text)) != "0 <nil>" {
		t.Errorf("the process reads %q, %v, want an empty input", text, err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the process ended with %v, want no error", err)
	}
}

func begun(t *testing.T, output io.Reader) {
	t.Helper()
	line := make([]byte, len("begun\n"))
	if _, err := io.ReadFull(output, line); err != nil || string(line) != "begun\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
}
