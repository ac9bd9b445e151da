//go:build torture

package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// crowd is many clients at once that a front door has no use for. Its clients begin, and stay until ctx ends.
type crowd struct {
	name    string
	clients int
	begin   func(ctx context.Context, t *testing.T, address string, client int)
}

// connect opens a connection that stays until ctx ends, sends something, and then a byte a second.
func connect(ctx context.Context, t *testing.T, address, text string) {
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(address, "http://")))(t)
	context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		_, err := io.WriteString(conn, text)
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(conn, "x")
		}
	}()
}

// send posts a body again and again until ctx ends.
func send(ctx context.Context, address, kind string, body []byte) {
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/pairs", bytes.NewReader(body))
		if err != nil {
			return
		}
		request.Header.Set("Content-Type", kind)
		if response, err := http.DefaultClient.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
}

// crowds lists them. URLs lead to hosts that are slow or silent.
func crowds(t *testing.T) []crowd {
	head := "POST /v1/pairs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	body := head + "Content-Type: application/json\r\nContent-Length: 20000000\r\n\r\n{\"image\":\""
	large := body + strings.Repeat("A", 6<<20)
	var members strings.Builder
	members.WriteString(`{"caption":"x","image":"AAAA","meta":{`)
	for i := range 2_000_000 {
		fmt.Fprintf(&members, `"%d":1,`, i)
	}
	members.WriteString(`"last":1}}`)
	return []crowd{
		{"nobody else", 0, nil},
		{"half heads", 2500, func(ctx context.Context, t *testing.T, address string, _ int) { connect(ctx, t, address, head) }},
		{"slow bodies", 300, func(ctx context.Context, t *testing.T, address string, _ int) { connect(ctx, t, address, body) }},
		{"slow bodies of 6 MiB", 100, func(ctx context.Context, t *testing.T, address string, _ int) { connect(ctx, t, address, large) }},
		{"idle connections", 1000, func(ctx context.Context, t *testing.T, address string, _ int) {
			connect(ctx, t, address, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		}},
		{"members without end", 4, func(ctx context.Context, _ *testing.T, address string, _ int) {
			go send(ctx, address, "application/json", []byte(members.String()))
		}},
		{"many URLs", 4, manyURLs(t)},
	}
}

// manyURLs has requests of 2,000 URLs at 20 hosts: half of them take half a second, and half never answer.
func manyURLs(t *testing.T) func(context.Context, *testing.T, string, int) {
	var hosts []string
	for i := range 20 {
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wait := time.After(500 * time.Millisecond)
			if i%2 == 1 {
				wait = nil
			}
			select {
			case <-wait:
				_, _ = w.Write(picture(i))
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(site.Close)
		hosts = append(hosts, site.URL)
	}
	return func(ctx context.Context, _ *testing.T, address string, client int) {
		var urls []string
		for i := range 2000 {
			urls = append(urls, fmt.Sprintf("%s/%d/%d", hosts[i%len(hosts)], client, i))
		}
		go send(ctx, address, "application/x-ndjson", linked(urls...))
	}
}

// TestTortureCrowds sends good requests beside each crowd, as the page says: again until they are taken. It prints how
// long they took: pairs in the body, and pairs with the URL of a host that answers at once.
func TestTortureCrowds(t *testing.T) {
	good := newSite(t)
	for _, c := range crowds(t) {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, nil)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for client := range c.clients {
				c.begin(ctx, t, d.address, client)
			}
			var took []time.Duration
			const requests = 40
			for n := range requests {
				body := []byte(object(picture(n), fmt.Sprintf(`"caption":"good %d"`, n)))
				if n%2 == 1 {
					body = bytes.TrimSpace(linked(fmt.Sprintf("%s/good%s", good.URL, strings.Repeat("x", n))))
				}
				began := time.Now()
				status, got, _ := d.post("application/json", body)
				for status == http.StatusServiceUnavailable && t.Context().Err() == nil {
					status, got, _ = d.post("application/json", body)
				}
				if took = append(took, time.Since(began)); status != http.StatusOK {
					t.Errorf("a good request is answered with %d %+v", status, got)
				}
				time.Sleep(50 * time.Millisecond)
			}
			slices.Sort(took)
			figures.Record(t, figures.Figures{
				Scenario: "the front door beside " + c.name, Broker: "embedded", Faults: c.clients, Records: requests,
				Note: fmt.Sprintf("good requests took %d ms, the slowest %d ms", took[requests/2].Milliseconds(), took[requests-1].Milliseconds()),
			})
		})
	}
}
