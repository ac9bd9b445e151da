//go:build cgo && linux

package forkserver

import "C"

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

const (
	// serves makes a program the server, before its main begins.
	serves = "PAIRSTREAM_TEST_FORKS"
	// variables is how many of them a process may have: the server's own, whose places they take.
	variables = 1024
)

// Serve starts a server from this test's program. It returns the name of its socket, for this process and those that it
// starts. The server ends with the context, and with the thread that calls
// Serve: that must be one that lasts.
func Serve(ctx context.Context) (socket string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	socket = "@pairstream-forks-" + rand.Text() // a name that leaves no file
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return "", err
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return "", err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), serves+"=1")
	for len(cmd.Env) < variables {
		cmd.Env = append(cmd.Env, fmt.Sprintf("PLACE_%d=", len(cmd.Env)))
	}
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return socket, cmd.Start()
}

// Process is a process that a server has made.
type Process struct {
	*os.Process
	connection *net.UnixConn
}

// Start makes a process with a copy of the server's memory, the variables, and the files as its output. It works in this
// process's folder.
func Start(socket string, env []string, stdout, stderr *os.File) (*Process, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	connection, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("forkserver: %w", err)
	}
	text := strings.Join(append([]string{folder}, distinct(env)...), "\x00") + "\x00"
	pid, err := request(connection, text, stdout, stderr)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return &Process{p, connection}, nil
}

// distinct keeps the last value of each variable, as exec.Cmd does.
func distinct(env []string) []string {
	return (&exec.Cmd{Env: env}).Environ()
}

func request(connection *net.UnixConn, text string, stdout, stderr *os.File) (pid int, err error) {
	rights := syscall.UnixRights(int(stdout.Fd()), int(stderr.Fd()))
	if _, _, err = connection.WriteMsgUnix([]byte(text), rights, nil); err != nil {
		return 0, fmt.Errorf("forkserver: asking for a process with %d bytes of variables: %w", len(text), err)
	}
	number, err := answer(connection)
	return int(number), err
}

func answer(connection *net.UnixConn) (int32, error) {
	var number [4]byte
	if _, err := io.ReadFull(connection, number[:]); err != nil {
		return 0, fmt.Errorf("forkserver: the server has not answered: %w", err)
	}
	return int32(binary.NativeEndian.Uint32(number[:])), nil
}

// ExitError is the status of a process that has not ended with 0.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Wait waits until the process has ended. The error says how, unless it ended with status 0: an [ExitError], or the signal.
func (p *Process) Wait() error {
	number, err := answer(p.connection)
	err = errors.Join(err, p.connection.Close())
	switch status := syscall.WaitStatus(number); {
	case err != nil:
		return err
	case status.Signaled():
		return fmt.Errorf("signal: %v", status.Signal())
	case status.ExitStatus() != 0:
		return ExitError(status.ExitStatus())
	}
	return nil
}
