//go:build console

package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
	"github.com/pairstream/pairstream/schemas"
)

// These tests open the pages in a real Chromium, as `make test-console` does. PAIRSTREAM_CHROMIUM names the browser,
// and PAIRSTREAM_AXE the file axe.min.js of axe-core.

var (
	rewrite = flag.Bool("rewrite", false, "write the stored screenshots anew")
	shots   = flag.String("shots", "", "folder for screenshots of the documents")
	shotsOf = flag.String("shots-of", "", "address of the console that -shots shows, such as that of a demo's log")
)

// browser is one tab, and what went wrong in it.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // of the tab: chromedp keeps it there

	mu       sync.Mutex
	problems []string
}

func newBrowser(t *testing.T, width, height int64, dark bool) *browser {
	t.Helper()
	path := os.Getenv("PAIRSTREAM_CHROMIUM")
	if path == "" {
		path = "chromium"
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("force-device-scale-factor", "1"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	must.Do(t, chromedp.Listen(ctx, b.listen))
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, log.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	}))
	return b
}

// listen collects whatever the browser complains about.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.problems = append(b.problems, fmt.Sprintf("console.%s", e.Type))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Do(b.t, chromedp.Do(b.ctx, actions...))
}

// shot takes a picture of the window, as PNG.
func (b *browser) shot() []byte {
	b.t.Helper()
	return must.Get(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(b.t)
}

// open loads a page and waits until its script has drawn.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitReady("main"))
	b.until(`(() => { const c = document.querySelector("#curves"); return document.readyState === "complete" && (!c || c.dataset.drawn === "true") &&
		Array.from(document.images).every(i => i.complete || i.loading === "lazy") })()`)
}

// until waits for an expression to be true.
func (b *browser) until(expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(60*time.Second), chromedp.WithPollingInterval(50*time.Millisecond))); err != nil {
		b.t.Fatalf("waiting for %s: %v", expression, err)
	}
}

// eval returns what an expression gives.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	return must.Get(chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise)))(b.t)
}

// check fails when the browser complained, the page is wider than the window, or axe has serious findings.
func (b *browser) check(page string) {
	b.t.Helper()
	b.mu.Lock()
	problems := b.problems
	b.problems = nil
	b.mu.Unlock()
	for _, p := range problems {
		b.t.Errorf("%s: the browser says: %s", page, p)
	}
	if wide := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		b.t.Errorf("%s is %d pixels wider than the window", page, wide)
	}
	for _, finding := range b.axe() {
		b.t.Errorf("%s: axe: %s", page, finding)
	}
}

func (b *browser) axe() []string {
	b.t.Helper()
	path := os.Getenv("PAIRSTREAM_AXE")
	if path == "" {
		b.t.Fatal("PAIRSTREAM_AXE is empty: make test-console sets it")
	}
	source := must.Get(os.ReadFile(path))(b.t)
	eval[int](b, string(source)+";0")
	raw := eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.filter(v => v.impact === "serious" || v.impact === "critical").
		map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(" | "))))`)
	var list []string
	must.Do(b.t, json.Unmarshal([]byte(raw), &list))
	return list
}

var pages = map[string]string{
	"flow": "/", "training": "/training", "groups": "/groups", "group": "/groups/0/0", "batch": "/groups/0/0/batches/1/2", "connections": "/connections/0/0",
	"search": "/search?q=red", "dead-letters": "/dead-letters", "dead-letter": "/dead-letters/1", "replays": "/replays",
	"compare": "/compare?run=grit.json&run=mafa.json",
}

func TestBrowserEveryPage(t *testing.T) {
	s := open(t, small, func(o *console.Options) { o.Settings.Manifests = t.TempDir() })
	s.describe("grit.json", map[string]string{"SEED": "7", "ECM_HIGH": "0.9"})
	s.describe("mafa.json", map[string]string{"SEED": "7", "ECM_HIGH": "0.8"})
	all := map[string]string{"pair": "/pairs/" + s.run.Pairs[7].ID.String()}
	maps.Copy(all, pages)
	for _, window := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"wide", 1280, 900, false}, {"dark", 1280, 900, true}, {"phone", 360, 740, false}} {
		t.Run(window.name, func(t *testing.T) {
			b := newBrowser(t, window.width, window.height, window.dark)
			for name, path := range all {
				b.open(s.address + path)
				b.check(name)
				if window.name != "dark" {
					b.compare(name + "-" + window.name)
				}
			}
		})
	}
}

// TestBrowserShots takes the screenshots of README and docs/console.md, when -shots asks for them.
func TestBrowserShots(t *testing.T) {
	if *shots == "" {
		return
	}
	b := newBrowser(t, 1200, 820, false)
	b.open(*shotsOf + "/connections/0/0")
	pair := eval[string](b, `document.querySelector(".connection a").getAttribute("href")`)
	for name, path := range map[string]string{
		"flow": "/", "training": "/training", "group": "/groups/0/0", "batch": "/groups/0/0/batches/3/2", "connections": "/connections/0/0", "pair": pair, "dead-letters": "/dead-letters",
	} {
		b.open(*shotsOf + path)
		b.do(chromedp.Sleep(2500 * time.Millisecond))
		must.Do(t, os.WriteFile(filepath.Join(*shots, name+".png"), b.shot(), 0o644))
	}
}

// Without this, a browser that says nothing would pass every check.
func TestBrowserComplaintsAreHeard(t *testing.T) {
	b := newBrowser(t, 400, 300, false)
	b.do(chromedp.Navigate("data:text/html,<main>"))
	eval[bool](b, `(console.error("a line"), setTimeout(() => { throw new Error("a fault") }), new Promise(r => setTimeout(r, 100, true)))`)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) != 2 || b.problems[0] != "console.error" || !strings.Contains(b.problems[1], "a fault") {
		t.Errorf("the browser complained %q, want an error line and a fault", b.problems)
	}
}

func TestBrowserEmptyLog(t *testing.T) {
	s := open(t, runlog.Options{}, nil)
	b := newBrowser(t, 1280, 900, false)
	for name, path := range map[string]string{"flow": "/", "training": "/training", "groups": "/groups", "connections": "/connections", "search": "/search", "dead letters": "/dead-letters"} {
		b.open(s.address + path)
		b.check(name + " of an empty log")
	}
}

// The pages are the same from run to run but for times, and for how long a stage has stood still. hide ends the events,
// so that nothing comes back.
const hide = `dispatchEvent(new Event("pagehide"));
document.querySelectorAll("time, .quiet time, .lead, .big").forEach(e => { e.style.visibility = "hidden" });
document.querySelectorAll(".lag, .why, .notice").forEach(e => { e.style.display = "none" })`

const (
	storedWidth = 240
	tolerance   = 0.02 // share of the pixels that may be clearly different
)

// settle takes away what the page Flow says after a minute without stages, and the room that it takes.
const settle = `document.querySelectorAll(".stage").forEach(e => e.className = "stage");
document.querySelectorAll(".lead[class*=state-]").forEach(e => e.style.display = "none")`

// compare compares the window with a stored screenshot, small and grey: fonts may differ a little, places may not.
func (b *browser) compare(name string) {
	b.t.Helper()
	eval[int](b, hide+";"+settle+";0")
	shot := b.shot()
	m := must.Get(png.Decode(bytes.NewReader(shot)))(b.t)
	got := shrink(m)
	path := filepath.Join("testdata", "screens", name+".png")
	if *rewrite {
		var out bytes.Buffer
		must.Do(b.t, png.Encode(&out, got))
		must.Do(b.t, os.WriteFile(path, out.Bytes(), 0o644))
		return
	}
	raw := must.Get(os.ReadFile(path))(b.t)
	want := must.Get(png.Decode(bytes.NewReader(raw)))(b.t)
	if different := difference(got, want); different > tolerance {
		file := filepath.Join(os.TempDir(), "console-"+name+".png")
		must.Check(b.t, os.WriteFile(file, shot, 0o600))
		b.t.Errorf("%s differs from %s in %.1f %% of its pixels; it is in %s, and go test -tags console -rewrite stores it", name, path, 100*different, file)
	}
}

// shrink averages squares of pixels into a grey picture.
func shrink(m image.Image) *image.Gray {
	factor := max(1, m.Bounds().Dx()/storedWidth)
	out := image.NewGray(image.Rect(0, 0, m.Bounds().Dx()/factor, m.Bounds().Dy()/factor))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			sum := 0
			for dy := range factor {
				for dx := range factor {
					sum += int(color.GrayModel.Convert(m.At(x*factor+dx, y*factor+dy)).(color.Gray).Y)
				}
			}
			out.SetGray(x, y, color.Gray{Y: uint8(sum / (factor * factor))})
		}
	}
	return out
}

// difference returns the share of clearly different pixels.
func difference(a, b image.Image) float64 {
	if a.Bounds() != b.Bounds() {
		return 1
	}
	n, all := 0, a.Bounds().Dx()*a.Bounds().Dy()
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			p, q := int(color.GrayModel.Convert(a.At(x, y)).(color.Gray).Y), int(color.GrayModel.Convert(b.At(x, y)).(color.Gray).Y)
			if p-q > 48 || q-p > 48 {
				n++
			}
		}
	}
	return float64(n) / float64(all)
}

// TestBrowserComparisonCanFail compares two pages that differ.
func TestBrowserComparisonCanFail(t *testing.T) {
	white, half := image.NewGray(image.Rect(0, 0, 100, 100)), image.NewGray(image.Rect(0, 0, 100, 100))
	for i := range 300 {
		half.Pix[i] = 255
	}
	if d := difference(white, half); d <= tolerance {
		t.Errorf("three lines of other pixels are %.3f", d)
	}
	if d := difference(white, white); d != 0 {
		t.Errorf("a picture differs from itself by %.3f", d)
	}
}

func TestBrowserKeyboardOnly(t *testing.T) {
	s := open(t, small, nil)
	b := newBrowser(t, 1280, 900, false)
	b.open(s.address + "/")
	b.do(chromedp.KeyEvent(kb.Tab))
	if got := eval[string](b, "document.activeElement.textContent"); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	if !eval[bool](b, `document.querySelector("main").contains(document.activeElement)`) {
		t.Error("skipping leads not into the content")
	}
	for range 3 { // skip link, brand, Flow, Training
		b.do(chromedp.Navigate(s.address + "/"))
	}
	for range 4 {
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitReady("#curves"))

	b.open(s.address + "/groups/0/0/batches/1/2")
	b.do(chromedp.Focus("canvas"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowDown))
	if got := eval[string](b, `document.querySelector("#cell").textContent`); !strings.HasPrefix(got, "image 2, text 2") {
		t.Errorf("the cell in focus is %q", got)
	}

	b.open(s.address + "/connections/0/0")
	b.do(chromedp.Focus(".connection a"), chromedp.KeyEvent("y"))
	b.until(`document.querySelector("#score").textContent.startsWith("1 of 1")`)
	b.do(chromedp.KeyEvent("n"))
	b.until(`document.querySelector("#score").textContent.startsWith("1 of 2")`)
	var verdicts []string
	for j, err := range stream.Values[*schemas.Judgement](t.Context(), s.log, schemas.Judgements, 0) {
		must.Do(t, err)
		verdicts = append(verdicts, j.Verdict)
	}
	if fmt.Sprint(verdicts) != "[match no match]" {
		t.Errorf("the log has the verdicts %v", verdicts)
	}
	b.check("connections, judged")
}

// TestBrowserWhileItRuns keeps Flow open, adds to the log, takes the broker away and brings it back.
func TestBrowserWhileItRuns(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, small, nil)
	b := newBrowser(t, 1280, 900, false)
	b.open(s.address + "/")
	b.until(`document.querySelector("#flow").textContent.includes("7 dead letters")`)
	must.Get(runlog.Write(t.Context(), s.log, runlog.Options{Dir: t.TempDir(), DeadLetters: 9, FirstDead: 100}))(t)
	b.until(`document.querySelector("#flow").textContent.includes("16 dead letters")`)
	addr := s.broker.Addr()
	must.Do(t, s.broker.Close())
	b.until(`document.querySelector("#flow .notice")?.textContent.includes("has not answered since")`)
	again := must.Get(broker.Start(broker.Options{Addr: addr, DataDir: dir}))(t)
	t.Cleanup(func() { _ = again.Close() })
	b.until(`!document.querySelector("#flow .notice")`)
	b.check("flow, after the broker came back")
}

func TestBrowserHostile(t *testing.T) {
	captions := map[int]string{
		0: `<script>window.hurt = 1</script><img src=x onerror="window.hurt = 2">`, 1: "</script><svg onload=window.hurt=3>", 2: "\u202eevil\u2066", 3: strings.Repeat("W", 8000),
		4: `"><a href="javascript:window.hurt=4">`, 5: "{{.}} ${hurt}",
	}
	o := runlog.Options{Pairs: 24, Batch: 24, Epochs: 1, Captions: captions, Spoiled: true, DeadLetters: 3, LargeLetter: 10 << 20}
	s := open(t, o, nil)
	b := newBrowser(t, 360, 740, false)
	paths := []string{"/", "/groups/0/0", "/groups/0/0/batches/0/0", "/connections/0/0", "/dead-letters", "/dead-letters/0", "/dead-letters/3", "/search?q=%3Cscript%3E"}
	for i := range captions {
		paths = append(paths, "/pairs/"+s.run.Pairs[i].ID.String())
	}
	for _, path := range paths {
		b.open(s.address + path)
		b.check(path)
		if eval[bool](b, `"hurt" in window || document.body.textContent.includes("\u202e")`) {
			t.Errorf("%s: a caption did something", path)
		}
		if size := eval[int](b, "document.documentElement.outerHTML.length"); size > 400_000 {
			t.Errorf("%s has %d characters", path, size)
		}
	}
}

func TestBrowserManyDeadLetters(t *testing.T) {
	s := open(t, runlog.Options{DeadLetters: 10_000}, nil)
	b := newBrowser(t, 360, 740, false)
	b.open(s.address + "/dead-letters")
	b.check("10,000 dead letters")
	if !eval[bool](b, `document.body.textContent.includes("10,000 letters") && document.querySelectorAll(".letters tbody tr").length === 50`) {
		t.Error("the page does not count 10,000 letters, or has not 50 of them")
	}
	b.do(chromedp.Click(`a.button`), chromedp.WaitReady("main"))
	b.open(s.address + "/dead-letters?words=eof&stage=encoder")
	b.check("filtered")
}

func TestBrowserToken(t *testing.T) {
	s := open(t, small, func(o *console.Options) { o.Settings.Token = "a long token" })
	b := newBrowser(t, 360, 740, true)
	b.do(chromedp.Navigate(s.address+"/groups"), chromedp.WaitReady("input[name=token]"), chromedp.SendKeys("input[name=token]", "a long token"+kb.Enter), chromedp.WaitReady("table"))
	if got := eval[string](b, "location.pathname"); got != "/groups" {
		t.Errorf("logging in leads to %s", got)
	}
}
