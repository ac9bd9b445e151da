package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func newGetter(t *testing.T, o fetch.Options) *fetch.Getter {
	t.Helper()
	g := must.Get(fetch.NewGetter(o))(t)
	t.Cleanup(g.Close)
	return g
}

// TestGetter gets single images, and the reasons why there is none.
func TestGetter(t *testing.T) {
	w := newWeb(t)
	g := newGetter(t, options())
	for path, want := range map[string]string{
		"/ok/1": "", "/to-ok": "", "/private/a": "robots", "/noai": "robots_tag", "/to-metadata": "forbidden_address", "/to-itself": "redirects",
		"/html": "not_image", "/empty": "empty", "/endless": "too_large", "/declares-more": "cut", "/bomb": "content_encoding", "/none": "http_404",
	} {
		data, err := g.Get(t.Context(), w.URL+path)
		if want == "" && (err != nil || !bytes.Equal(data, encode(t, 1))) {
			t.Errorf("%s: %d bytes, %v, want the image", path, len(data), err)
		}
		if want != "" && (err == nil || !strings.HasPrefix(err.Error(), want+": ") || data != nil) {
			t.Errorf("%s: %d bytes, %v, want the reason %s", path, len(data), err, want)
		}
	}
	if _, err := g.Get(t.Context(), "file:///etc/passwd"); err == nil || !strings.HasPrefix(err.Error(), "bad_url") {
		t.Errorf("a file: %v", err)
	}
	if _, err := fetch.NewGetter(fetch.Options{}); err == nil {
		t.Error("a getter without a thread is made")
	}
}

// TestGetterIsNotHeldUp has callers that give up while a host does not answer. Images of another host come, and Close
// ends what nobody has given up.
func TestGetterIsNotHeldUp(t *testing.T) {
	asked := make(chan struct{}, 64)
	silent := newHost(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	w := newWeb(t)
	o := options()
	o.Threads, o.PerHost = 2, 2
	g := newGetter(t, o)
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	for _, ctx := range []context.Context{ctx, ctx, ctx, t.Context()} {
		go func() {
			_, err := g.Get(ctx, silent.URL+"/a")
			ended <- err
		}()
	}
	<-asked
	if _, err := g.Get(t.Context(), w.URL+"/ok/1"); err != nil {
		t.Errorf("an image of another host: %v", err)
	}
	cancel()
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has given up gets %v", err)
		}
	}
	g.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a caller of a getter that is closed gets %v", err)
	}
}

// TestCallersThatHaveGone leave nothing in the queue of a host: it is asked for what they have begun, and then for the
// next caller.
func TestCallersThatHaveGone(t *testing.T) {
	picture := encode(t, 1)
	began := make(chan struct{}, 64)
	var asked atomic.Int64
	host := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			began <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = rw.Write(picture)
	})
	o := options()
	o.PerHost = 1
	g := newGetter(t, o)
	first, cancelFirst := context.WithCancel(t.Context())
	others, cancelOthers := context.WithCancel(t.Context())
	ended := make(chan error)
	call := func(ctx context.Context) {
		_, err := g.Get(ctx, host.URL+"/a")
		ended <- err
	}
	gone := func(n int) {
		for range n {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that has gone gets %v", err)
			}
		}
	}
	go call(first)
	<-began
	const waiting = 30
	for range waiting {
		go call(others)
	}
	cancelOthers()
	gone(waiting)
	cancelFirst()
	gone(1)
	if _, err := g.Get(t.Context(), host.URL+"/b"); err != nil || asked.Load() != 2 {
		t.Errorf("the next caller gets %v, and the host was asked %d times, want twice", err, asked.Load())
	}
}

// TestGetAllOfManyAndOfFew: a caller whose URLs wait at a host holds up neither another host nor a caller with one URL
// there.
func TestGetAllOfManyAndOfFew(t *testing.T) {
	picture := encode(t, 1)
	const many = 40
	turn, paths := make(chan struct{}), make(chan string, many+1)
	busy := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		<-turn
		_, _ = rw.Write(picture)
	})
	w := newWeb(t)
	o := options()
	o.Threads, o.PerHost = 2, 1
	g := newGetter(t, o)
	queued, ended := make(chan struct{}), make(chan int)
	get := func(urls ...string) {
		got, last := 0, len(urls) // whose address cannot be: its error comes when all others are queued
		g.GetAll(t.Context(), append(urls, "file:///etc/passwd"), func(i int, image []byte, err error) {
			switch {
			case i == last:
				close(queued)
			case err != nil || !bytes.Equal(image, picture):
				t.Errorf("%d bytes, %v", len(image), err)
			default:
				got++
			}
		})
		ended <- got
	}
	go get(slices.Repeat([]string{busy.URL + "/many"}, many)...)
	<-queued
	<-paths // the first one is being answered, and the others wait
	g.GetAll(t.Context(), []string{w.URL + "/ok/1", w.URL + "/none"}, func(i int, image []byte, err error) {
		if (i == 0) != (err == nil) || (i == 0) != (len(image) > 0) || (i == 1) != (fetch.Reason(err) == "http_404") {
			t.Errorf("URL %d of another host: %d bytes, %v", i, len(image), err)
		}
	})
	queued = make(chan struct{})
	go get(busy.URL + "/one")
	<-queued
	close(turn)
	got := <-ended + <-ended
	before := 0
	for path := range paths {
		if path == "/one" {
			break
		}
		before++
	}
	if got != many+1 || before > 3 {
		t.Errorf("%d images, want %d; the caller with one URL waited for %d of another caller's %d", got, many+1, before, many)
	}
}
