//go:build console

package site_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/pairstream/pairstream/internal/testing/must"
)

//go:embed faults.js
var faults string

var (
	shots = flag.String("shots", "", "folder for a screenshot of every page at every width")
	only  = flag.String("only", "", "open only pages with this in their places")
)

// tab is one tab of a browser, and the requests of its pages to other hosts than the site's.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // of the tab: chromedp keeps it there
	host string

	mu     sync.Mutex
	abroad []string
}

func newTab(t *testing.T, address, scheme string) *tab {
	t.Helper()
	path := os.Getenv("PAIRSTREAM_CHROMIUM")
	if path == "" {
		path = "chromium"
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("force-device-scale-factor", "1"), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, host: must.Get(url.Parse(address))(t).Host}
	must.Do(t, chromedp.Listen(ctx, b.listen))
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}
	must.Do(t, chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})))
	return b
}

// listen collects the requests to other hosts.
func (b *tab) listen(event any) {
	e, ok := event.(*network.EventRequestWillBeSent)
	if !ok {
		return
	}
	if to, err := url.Parse(e.Request.URL); err != nil || (strings.HasPrefix(to.Scheme, "http") && to.Host != b.host) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.abroad = append(b.abroad, e.Request.URL)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Do(b.t, chromedp.Do(b.ctx, actions...))
}

// list returns the texts that an expression gives.
func (b *tab) list(expression string) []string {
	b.t.Helper()
	return must.Get(chromedp.Run(b.ctx, chromedp.Evaluate[[]string](expression, chromedp.EvalAwaitPromise)))(b.t)
}

// loaded waits until the scripts of a page have asked for what they ask for.
const loaded = `new Promise(r => {
	const done = () => setTimeout(() => requestAnimationFrame(() => r(document.fonts.ready.then(() => []))), 50);
	document.readyState === "complete" ? done() : addEventListener("load", done);
})`

// widths are those of a desktop, half a desktop and a phone.
var widths = []int64{1280, 700, 360}

// look opens a page and returns what is wrong with it: at every width, for axe at the first, and requests to other hosts.
func (b *tab) look(address, name string) (wrong []string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(widths[0], 900), chromedp.Navigate(address))
	b.list(loaded)
	for i, width := range widths {
		if i > 0 {
			b.do(chromedp.EmulateViewport(width, 900))
			b.list(loaded)
		}
		for _, fault := range b.list(faults) {
			wrong = append(wrong, fmt.Sprintf("%d pixels: %s", width, fault))
		}
		if *shots != "" {
			file := fmt.Sprintf("%s-%d.png", strings.ReplaceAll(strings.Trim(name, "/"), "/", "-"), width)
			picture := must.Get(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(b.t)
			must.Do(b.t, os.WriteFile(filepath.Join(*shots, file), picture, 0o644))
		}
	}
	b.do(chromedp.EmulateViewport(widths[0], 900))
	wrong = append(wrong, b.axe()...)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, to := range b.abroad {
		wrong = append(wrong, "a request to another host: "+to)
	}
	b.abroad = nil
	return wrong
}

// axe returns the serious findings of axe-core.
func (b *tab) axe() []string {
	b.t.Helper()
	source := must.Get(os.ReadFile(os.Getenv("PAIRSTREAM_AXE")))(b.t)
	b.list(string(source) + ";[]")
	raw := must.Get(chromedp.Run(b.ctx, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(
		r.violations.filter(v => v.impact === "serious" || v.impact === "critical").
		map(v => "axe: " + v.id + ": " + v.nodes.length + ": " + v.nodes.slice(0, 2).map(n => n.html.slice(0, 160)).join(" | "))))`,
		chromedp.EvalAwaitPromise)))(b.t)
	var found []string
	must.Do(b.t, json.Unmarshal([]byte(raw), &found))
	return found
}

// pages returns the places of a site's pages, in the order of their names.
func pages(t *testing.T, root string) (found []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "index.html" {
			var rel string
			rel, err = filepath.Rel(root, filepath.Dir(path))
			found = append(found, filepath.ToSlash(rel))
		}
		return err
	}))
	slices.Sort(found)
	return found
}

func TestEveryPageOfTheSite(t *testing.T) {
	root := os.Getenv("PAIRSTREAM_SITE")
	if root == "" {
		t.Fatal("PAIRSTREAM_SITE is empty: make test-site sets it")
	}
	all := pages(t, root)
	if len(all) < 40 {
		t.Fatalf("%s has %d pages: is it the built site?", root, len(all))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(server.Close)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			b := newTab(t, server.URL, scheme)
			some := all
			if scheme == "dark" {
				some = []string{".", "commands/feed", "clients/api", "specifications/asyncapi"}
			}
			for _, page := range some {
				if !strings.Contains(page, *only) {
					continue
				}
				for _, wrong := range b.look(server.URL+"/"+page+"/", scheme+"-"+page) {
					t.Errorf("%s: %s", page, wrong)
				}
			}
		})
	}
}

// TestFaultsAreFound has a page with every fault, and one without any.
func TestFaultsAreFound(t *testing.T) {
	const head = `<!doctype html><html lang="en"><title>t</title><body style="margin:8px"><main><article><h1>h</h1>`
	const long = `pairstream batches /data/shards --out plan --weights data/bootstrap.safetensors --recipe mafa --epochs 3 --materialize tars`
	served := map[string]string{
		"/bad": head + `<p>Some text and a <a href="/x" style="text-decoration:none;color:#00f">link</a> in it.</p>
			<div style="overflow:hidden"><pre><code>` + long + `</code></pre></div><div style="width:900px">wide</div>
			<table style="width:90px;table-layout:fixed"><tr><td style="word-break:break-all"><code>COND_MIN_PRECISION</code></table>
			<img alt="a badge" src="http://badge.example.org/x.svg"><p style="color:#ccc">pale</p>`,
		"/good": head + `<p>Some text and a <a href="/x">link</a> in it.</p><pre tabindex="0" style="overflow:auto"><code>` + long + `</code></pre>`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(served[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	b := newTab(t, server.URL, "light")
	if wrong := b.look(server.URL+"/good", "good"); len(wrong) > 0 {
		t.Errorf("a good page has the faults %q", wrong)
	}
	found := strings.Join(b.look(server.URL+"/bad", "bad"), "\n")
	for _, want := range []string{
		"360 pixels: the page is", "700 pixels: the page is", "700 pixels: a code block is cut: pairstream batches", "360 pixels: a name is broken: COND",
		"1280 pixels: a link differs by colour alone: link", "a request to another host: http://badge.example.org/x.svg", "axe: color-contrast",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("not found: %s, in\n%s", want, found)
		}
	}
}
