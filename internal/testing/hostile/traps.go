package hostile

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// jpeg begins a picture.
const jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF\x00"

// traps lists what the hosts do.
func traps() []trap {
	all := append(bodies(), heads()...)
	all = append(all, robots()...)
	return append(append(all, redirects()...), connections()...)
}

func page(name string, r reply) trap { return trap{name: name, page: r} }

func bodies() []trap {
	picture := strings.Repeat("x", 4096)
	out := []trap{
		page("a body that stops", hold(head("200 OK", "Content-Type: image/jpeg")+jpeg)),
		page("a slow body", drip(head("200 OK", "Content-Type: image/jpeg")+jpeg, "x")),
		page("an endless body", endless(head("200 OK", "Content-Type: image/jpeg")+jpeg, picture)),
		page("endless chunks", endless(head("200 OK", "Transfer-Encoding: chunked")+"a\r\n"+jpeg+"\r\n", "1\r\nx\r\n")),
		page("an endless extension of a chunk", endless(head("200 OK", "Transfer-Encoding: chunked")+"a;", picture)),
		page("endless trailers", endless(head("200 OK", "Transfer-Encoding: chunked", "Trailer: X")+"a\r\n"+jpeg[:10]+"\r\n0\r\n", "X: x\r\n")),
		page("a chunk of 2^64", say(head("200 OK", "Transfer-Encoding: chunked")+"10000000000000000\r\n"+jpeg)),
		page("more is declared", say(head("200 OK", "Content-Length: 100000")+jpeg)),
		page("much more is declared", say(head("200 OK", "Content-Length: 9223372036854775807")+jpeg)),
		page("less is declared", say(head("200 OK", "Content-Length: 1")+jpeg)),
		page("two lengths", say(head("200 OK", "Content-Length: 2", "Content-Length: 20")+jpeg)),
		page("a negative length", say(head("200 OK", "Content-Length: -1")+jpeg)),
		page("a reset body", reset(head("200 OK", "Content-Length: 100000")+jpeg)),
		page("a page of HTML", say(head("200 OK", "Content-Type: image/jpeg")+"<html>")),
		page("nothing", say(head("200 OK", "Content-Length: 0"))),
	}
	for _, b := range bombs() {
		out = append(out, page("a bomb of "+b.encoding, say(head("200 OK", "Content-Encoding: "+b.encoding, fmt.Sprintf("Content-Length: %d", len(b.data)))+b.data)))
	}
	return out
}

func heads() []trap {
	return []trap{
		page("no answer", hold("")),
		page("half a head", hold("HTTP/1.1 200 OK\r\nContent-Type: ima")),
		page("a slow head", drip("HTTP/1.1 200 OK\r\n", "X: x\r\n")),
		page("an endless header", endless("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 4096))),
		page("endless headers", endless("HTTP/1.1 200 OK\r\n", strings.Repeat("X: x\r\n", 500))),
		page("endless answers before the answer", endless("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")),
		page("another protocol", say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")),
		page("no HTTP", say("220 mail.example.com ESMTP\r\n")),
		page("a status of no number", say("HTTP/1.1 abc OK\r\n\r\n")),
		page("a status of 999", say(head("999 No"))),
		page("a fault of the server", say(head("503 Service Unavailable", "Retry-After: 999999999"))),
		page("a directive against AI", say(head("200 OK", "X-Robots-Tag: noai")+jpeg)),
	}
}

func robots() []trap {
	never := say(head("200 OK") + "<html>")
	kind := func(name string, r reply) trap { return trap{name: "a robots.txt: " + name, robots: r, page: never} }
	rules := func(rule string) string {
		line := "Disallow: " + rule + "\n"
		return head("200 OK", "Content-Type: text/plain") + "User-agent: *\n" + strings.Repeat(line, (500<<10)/len(line))
	}
	return []trap{
		kind("short wildcards", say(rules("/*a$"))),
		kind("long wildcards", say(rules("/"+strings.Repeat("*ab", 16)+strings.Repeat("x", 40)))),
		kind("one long rule", say(rules("/"+strings.Repeat("x", 100_000)))),
		kind("all agents", say(head("200 OK")+strings.Repeat("User-agent: pairstream\n", 20_000)+"Disallow: /\n")),
		kind("endless", endless(head("200 OK")+"User-agent: *\n", strings.Repeat("Disallow: /a\n", 300))),
		kind("no answer", hold("")),
		kind("slow", drip(head("200 OK")+"User-agent: *\n", "#")),
		kind("a fault", say(head("500 Internal Server Error"))),
		kind("zeros", say(head("200 OK")+strings.Repeat("\x00", 100_000))),
		kind("a bomb", say(head("200 OK", "Content-Encoding: gzip")+bombs()[0].data)),
		kind("everything is forbidden", say(head("200 OK")+"User-agent: *\nDisallow: /\n")),
		kind("a circle", redirect(func(w *Web, path string) string { return path })),
		kind("another host's", redirect(func(w *Web, _ string) string { return w.find("a robots.txt: no answer") })),
		kind("inside of a network", redirect(func(*Web, string) string { return "http://169.254.169.254/robots.txt" })),
	}
}

func redirects() []trap {
	to := func(name, where string) trap {
		return page("a redirect "+name, redirect(func(*Web, string) string { return where }))
	}
	over := func(name, other string) trap {
		return page("a redirect "+name, redirect(func(w *Web, path string) string { return w.find(other) + path[1:] }))
	}
	return []trap{
		page("a redirect to itself", redirect(func(_ *Web, path string) string { return path })),
		page("redirects without end", redirect(func(_ *Web, path string) string { return path + "x" })),
		over("to a circle", "a redirect in a circle"), over("in a circle", "a redirect to a circle"),
		over("to no answer", "no answer"), over("to an endless body", "an endless body"), over("to robots", "a robots.txt: no answer"),
		to("to a file", "file:///etc/passwd"), to("to metadata", "http://169.254.169.254/latest/meta-data/"), to("to IPv6", "http://[::1]:1/"),
		to("to loopback", "http://127.0.0.2:1/"), to("to a password", "http://a:b@127.0.0.1/"), to("of much text", "/"+strings.Repeat("a", 60_000)),
		to("to nothing", "http://"), to("to no URL", "http://%zz"),
		page("a redirect that stops", hold("HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 1000\r\n\r\n")),
	}
}

func connections() []trap {
	return []trap{
		{name: "a reset", raw: reset("")},
		{name: "the end", raw: say("")},
		{name: "TLS that stalls", scheme: "https", raw: hold("")},
		{name: "TLS that stops", scheme: "https", raw: hold("\x16\x03\x03\x40\x00\x02")},
		{name: "TLS that drips", scheme: "https", raw: drip("\x16\x03\x03\x40\x00", "\x02")},
		{name: "TLS that is none", scheme: "https", raw: say("HTTP/1.1 400 Bad Request\r\n\r\n")},
		{name: "a name that changes", host: changing, page: redirect(func(_ *Web, path string) string { return path }), robots: reset("")},
		{name: "a name without an answer", host: silent, raw: hold("")},
		{name: "a name that is none", host: "none.test", raw: hold("")},
	}
}

// find returns what the URLs of the host with a trap begin with.
func (w *Web) find(name string) string {
	for i, t := range w.traps {
		if t.name == name {
			return w.bases[i]
		}
	}
	panic("no trap is named " + name)
}

// pauseOfADrip lies between two bytes of what is slow.
const pauseOfADrip = 20 * time.Millisecond

// drip sends a text, and a second one again and again, with pauses.
func drip(text, again string) reply {
	return func(w *Web, c net.Conn, _ string) {
		for ok := send(c, text); ok; ok = send(c, again) {
			select {
			case <-time.After(pauseOfADrip):
			case <-w.stop:
				return
			}
		}
	}
}

type bomb struct{ encoding, data string }

// bombs returns 64 MB of zeros in every encoding.
var bombs = sync.OnceValue(func() []bomb {
	var out []bomb
	for _, e := range []struct {
		name string
		pack func(io.Writer) (io.WriteCloser, error)
	}{
		{"gzip", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }},
		{"deflate", func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }},
		{"br", func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriterLevel(w, 1), nil }},
		{"zstd", func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }},
	} {
		var packed bytes.Buffer
		z, err := e.pack(&packed)
		for range 64 {
			if err == nil {
				_, err = z.Write(make([]byte, 1<<20))
			}
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			panic(err) // a buffer takes everything
		}
		out = append(out, bomb{e.name, packed.String()})
	}
	return append(out, bomb{"gzip, gzip", out[0].data}, bomb{"x-unknown", "x"})
})
