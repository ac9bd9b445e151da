package stream

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestClientsInTheBrokersProcess counts connections over TCP: a client in the broker's process makes none. Others do.
func TestClientsInTheBrokersProcess(t *testing.T) {
	b := startBroker(t, broker.Options{})
	conn, err := broker.DialInProcess(t.Context(), b.Addr())
	if conn == nil || err != nil {
		t.Fatalf("got %v, %v, want a pipe", conn, err)
	}
	must.Check(t, conn.Close())
	l := openLog(t, testConfig(b.Addr(), "", 1))
	put(t, l, pair(0, "through memory"))
	proxied := openLog(t, testConfig(proxy(t, b.Addr()), "", 1))
	if got := lines(t, proxied, schemas.Pairs, 0); len(got) != 1 {
		t.Errorf("another connection reads %q", got)
	}
}

// proxy listens at another address, as other processes see the broker, and passes connections on.
func proxy(t *testing.T, addr string) string {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				return
			}
			go pass(client, server)
			go pass(server, client)
		}
	}()
	return ln.Addr().String()
}

func pass(from, to net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func TestBrokerThatHasEnded(t *testing.T) {
	b := must.Get(broker.Start(broker.Options{}))(t)
	open, err := broker.DialInProcess(t.Context(), b.Addr())
	if open == nil || err != nil {
		t.Fatalf("got %v, %v", open, err)
	}
	must.Do(t, b.Close())
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives its broker")
	}
	if conn, err := broker.DialInProcess(t.Context(), b.Addr()); conn != nil || err != nil {
		t.Errorf("got %v, %v, want none", conn, err)
	}
	if _, err := Connect(t.Context(), testConfig(b.Addr(), "", 1), Options{}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want a refused connection", err)
	}
}
