// Package gcstest runs an emulator of Google Cloud Storage for tests: fake-gcs-server, on a port of loopback. `make
// test-s3` builds it and names it in PAIRSTREAM_FAKE_GCS.
package gcstest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// Bucket starts an emulator that runs until the end of the test, and opens a bucket of it. Clients find it by the
// environment.
func Bucket(t testing.TB, name string) *blob.Bucket {
	t.Helper()
	cloud.Use()
	binary := os.Getenv("PAIRSTREAM_FAKE_GCS")
	if binary == "" {
		t.Fatal("PAIRSTREAM_FAKE_GCS names no fake-gcs-server: make test-s3 builds one and runs these tests")
	}
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		err = l.Close()
	}
	must.Do(t, err)
	t.Setenv("STORAGE_EMULATOR_HOST", addr)
	log := new(bytes.Buffer)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "-backend", "memory", "-data", dir, "-scheme", "http",
		"-host", "127.0.0.1", "-port", port, "-public-host", addr, "-external-url", "http://"+addr, "-log-level", "error")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Logf("killing the emulator: %v", err)
		}
		<-ended
	})
	await(t, addr, ended, log)
	b := must.Get(blob.OpenBucket(t.Context(), "gs://"+name))(t)
	t.Cleanup(func() { must.Check(t, b.Close()) })
	return b
}

// await waits until the emulator listens.
func await(t testing.TB, addr string, ended <-chan struct{}, log *bytes.Buffer) {
	t.Helper()
	for {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close() // it was only a question
			return
		}
		select {
		case <-ended:
			t.Fatalf("the emulator has ended\n%s", log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
