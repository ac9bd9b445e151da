// Package s3test runs a real S3 server for tests: versitygw, which serves a folder as buckets, on a port of loopback.
// `make test-s3` builds it and names it in PAIRSTREAM_VERSITYGW.
package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// Server is a server that runs until the end of the test.
type Server struct {
	endpoint string
	dir      string
	cmd      *exec.Cmd
	log      *bytes.Buffer
	args     []string
	ended    chan struct{} // closed when the server has
	err      error         // how it ended; may be read after ended
}

// Start starts a server, lets the tests open stores, and sets the credentials that clients take from the environment.
// Options go to the server as they are.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	cloud.Use()
	s := &Server{dir: t.TempDir()}
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	must.Do(t, l.Close())
	s.endpoint = "http://" + addr
	s.args = append([]string{"--quiet", "--port", addr, "--access", "tester", "--secret", "not-a-secret"}, options...)
	s.args = append(s.args, "posix", s.dir)
	s.Run(t)
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// Run starts the server again after [Server.Stop].
func (s *Server) Run(t testing.TB) {
	t.Helper()
	binary := os.Getenv("PAIRSTREAM_VERSITYGW")
	if binary == "" {
		t.Fatal("PAIRSTREAM_VERSITYGW names no versitygw: make test-s3 builds one and runs these tests")
	}
	s.log = new(bytes.Buffer)
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan<- struct{}) {
		defer close(ended)
		runtime.LockOSThread() // Linux sends Pdeathsig when the starting thread ends: this one ends behind the server
		err := cmd.Start()
		started <- err
		if err == nil {
			s.err = cmd.Wait()
		}
	}(s.cmd, s.ended)
	must.Do(t, <-started)
	for {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", s.endpoint[len("http://"):])
		if err == nil {
			_ = conn.Close() // it was only a question
			return
		}
		select {
		case <-s.ended:
			t.Fatalf("the S3 server has ended: %v\n%s", s.err, s.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop kills the server, and waits until it has ended.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("killing the S3 server: %v", err)
	}
	<-s.ended
}

// Dir returns the folder of a bucket, which Dir creates.
func (s *Server) Dir(t testing.TB, bucket string) string {
	t.Helper()
	dir := filepath.Join(s.dir, bucket)
	must.Do(t, os.MkdirAll(dir, 0o755))
	return dir
}

// Query returns the options behind a bucket's URL.
func (s *Server) Query() string {
	return url.Values{"endpoint": {s.endpoint}, "region": {"us-east-1"}, "use_path_style": {"true"}}.Encode()
}

// URL returns the URL of a prefix of a bucket, or of a tar.
func (s *Server) URL(path string) string { return fmt.Sprintf("s3://%s?%s", path, s.Query()) }

// Bucket opens a bucket, which Bucket creates.
func (s *Server) Bucket(t testing.TB, name string) *blob.Bucket {
	t.Helper()
	s.Dir(t, name)
	u := must.Get(url.Parse(s.URL(name)))(t)
	b := must.Get(new(s3blob.URLOpener).OpenBucketURL(t.Context(), u))(t)
	t.Cleanup(func() { must.Check(t, b.Close()) })
	return b
}
