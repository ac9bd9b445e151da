package ingest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pairstream/pairstream/internal/crawl/ingest"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
	"github.com/pairstream/pairstream/schemas"
)

// frontDoor is a front door on a log of its own.
type frontDoor struct {
	t       testing.TB
	log     *stream.Log
	broker  *broker.Broker
	end     func() error // closes the broker
	address string
	rt      service.Runtime
}

const lanes = 3

func open(t testing.TB, change func(*ingest.Options)) *frontDoor {
	t.Helper()
	broker := must.Get(broker.Start(broker.Options{DataDir: t.TempDir()}))(t)
	end := sync.OnceValue(broker.Close) // a test may end it earlier
	t.Cleanup(func() { _ = end() })
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.RequestTimeout = []string{broker.Addr()}, lanes, 2*time.Second
	log, err := stream.Connect(t.Context(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Cleanup(log.Close)
		err = log.EnsureTopics(t.Context())
	}
	must.Do(t, err)
	d := &frontDoor{t: t, log: log, broker: broker, end: end, rt: service.NewRuntime(slog.New(slog.DiscardHandler))}
	instruments := must.Get(d.rt.NewInstruments(ingest.Name, nil))(t)
	o := ingest.Options{
		Settings: ingest.Settings{Addr: "127.0.0.1:0", MaxLag: 1000, URLs: true}, Log: log, Instruments: instruments, Loopback: true,
		Lag: func(context.Context) (int64, error) { return 0, nil },
	}
	if change != nil {
		change(&o)
	}
	listener := must.Get(ingest.Listen(o.Settings))(t)
	server := must.Get(ingest.New(o, listener))(t)
	d.address = server.Address()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done // an error where the test has closed the broker
	})
	return d
}

type answer struct {
	Pairs []struct {
		Index   int    `json:"index"`
		ID      string `json:"id"`
		ImageID string `json:"image_id"`
		Lane    int    `json:"lane"`
	} `json:"pairs"`
	Errors []struct {
		Index int    `json:"index"`
		Error string `json:"error"`
		Retry bool   `json:"retry"`
	} `json:"errors"`
	Error string `json:"error"`

	status int
	header http.Header
}

// post sends a body and returns the status and the answer.
func (d *frontDoor) post(kind string, body []byte, encoding ...string) (int, answer, http.Header) {
	d.t.Helper()
	request := must.Get(http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.address+"/v1/pairs", bytes.NewReader(body)))(d.t)
	request.Header.Set("Content-Type", kind)
	request.Header["Content-Encoding"] = encoding
	a := d.do(request)
	return a.status, a, a.header
}

func (d *frontDoor) do(request *http.Request) (a answer) {
	d.t.Helper()
	response := must.Get(http.DefaultClient.Do(request))(d.t)
	defer response.Body.Close()
	raw := must.Get(io.ReadAll(response.Body))(d.t)
	if err := json.Unmarshal(raw, &a); err != nil {
		d.t.Fatalf("%s is answered with %d %q: %v", request.Header.Get("Content-Type"), response.StatusCode, raw, err)
	}
	a.status, a.header = response.StatusCode, response.Header
	return a
}

// published returns the pairs on the log by id, and how many records there are.
func (d *frontDoor) published() (pairs map[string]*schemas.Pair, records int) {
	d.t.Helper()
	pairs = map[string]*schemas.Pair{}
	for lane := range lanes {
		for p, err := range stream.Values[*schemas.Pair](d.t.Context(), d.log, schemas.Pairs, lane) {
			must.Do(d.t, err)
			if p.ImageID.Lane(lanes) != lane {
				d.t.Errorf("pair %s lies in lane %d", p.ID, lane)
			}
			pairs[p.ID.String()], records = p, records+1
		}
	}
	return pairs, records
}

func picture(n int) []byte {
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	m.Pix[0], m.Pix[1] = byte(n), byte(n>>8)
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

func object(picture []byte, rest string) string {
	return fmt.Sprintf(`{"image":%q,%s}`, base64.StdEncoding.EncodeToString(picture), rest)
}

func form(t testing.TB, fields ...[2]string) (kind string, body []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for _, f := range fields {
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q`, f[0])}})
		if err == nil {
			_, err = io.WriteString(part, f[1])
		}
		must.Do(t, err)
	}
	must.Do(t, w.Close())
	return w.FormDataContentType(), buf.Bytes()
}

// TestWaysIn sends one pair in every way. All give the same id, and the log holds it once, with what came with it.
func TestWaysIn(t *testing.T) {
	d := open(t, nil)
	data := picture(1)
	id := schemas.NewImageID(data)
	want := schemas.NewPairID(id, "a grey square").String()
	kind, body := form(t, [2]string{"image", string(data)}, [2]string{"caption", "a grey square\n"}, [2]string{"source", "https://example.org/1"})
	fields := `"caption":" a grey square ","source":"https://example.org/1","crawl_time":7,"meta":{"width":8,"score":0.5,"big":1e3,"nsfw":false,"by":"J\u00fc"}`
	for i, send := range []struct {
		kind string
		body string
	}{
		{"application/json", object(data, fields)},
		{"application/json; charset=utf-8", object(data, fields)},
		{kind, string(body)},
		{"application/x-ndjson", object(data, fields) + "\n\n" + object(data, fields)},
	} {
		status, got, _ := d.post(send.kind, []byte(send.body))
		if status != http.StatusOK || len(got.Pairs) == 0 || got.Pairs[0].ID != want || got.Pairs[0].ImageID != id.String() || got.Pairs[0].Lane != id.Lane(lanes) {
			t.Errorf("%d, %s: %d %+v", i, send.kind, status, got)
		}
	}
	pairs, records := d.published()
	p := pairs[want]
	meta := schemas.Columns{"width": int64(8), "score": 0.5, "big": 1000.0, "nsfw": false, "by": "Jü"}
	if p == nil || records != 1 {
		t.Fatalf("the log has %d records of %v, want one of %s", records, slices.Collect(maps.Keys(pairs)), want)
	}
	if !bytes.Equal(p.Inline, data) || p.Caption != "a grey square" || p.Source != "https://example.org/1" || p.CrawlTime != 7 || !maps.Equal(p.Meta, meta) {
		t.Errorf("published %+v", p)
	}
}

// TestLinesStandForThemselves: a bad line has its reason, and the good ones are on the log.
func TestLinesStandForThemselves(t *testing.T) {
	d := open(t, nil)
	long := strings.Repeat("x", schemas.MaxCaptionBytes+1)
	lines := []struct{ line, reason string }{
		{"\ufeff" + object(picture(0), `"caption":"zero"`), ""}, // as Windows writes files
		{`{"image":"data:image/png;base64,iVBORw0KGgo=","caption":"x"}`, "want base64 alone, without data:"},
		{object(picture(1), `"caption":" "`), "caption"},
		{object(picture(1), `"caption":"x","captoin":"y"`), "captoin"},
		{object(picture(1), `"caption":"x","caption":"y"`), "caption"},
		{object(picture(1), fmt.Sprintf(`"caption":%q`, long)), "caption"},
		{object(picture(1), "\"caption\":\"\xff\""), "UTF-8"},
		{`{"image":"!!!","caption":"x"}`, "image"},
		{`{"image":"","caption":"x"}`, "no image"},
		{`{"caption":"x"}`, "no image"},
		{object(picture(1), `"caption":"x","url":"http://127.0.0.1/"`), "both"},
		{object([]byte("<html>"), `"caption":"x"`), "neither JPEG, PNG nor WebP"},
		{object(picture(1), `"caption":"x","meta":{"a":[1]}`), "meta.a"},
		{object(picture(1), `"caption":"x","meta":{"a":{"b":1}}`), "meta.a"},
		{object(picture(1), `"caption":"x","meta":[1]`), "meta: want an object"},
		{`{"image":7,"caption":"x"}`, "base64"},
		{object(picture(1), fmt.Sprintf(`"caption":"x","meta":{%q:1}`, strings.Repeat("n", 65))), "column"},
		{object(picture(1), `"caption":"x","meta":{"a":1e999}`), "a is 1e999"},
		{object(picture(1), `"caption":"x","source":"`+strings.Repeat("s", schemas.MaxURIBytes+1)+`"`), "source"},
		{`[{"caption":"x"}]`, "want one object, or many as lines of application/x-ndjson"},
		{`{"image":`, "JSON"},
		{strings.Repeat("[", 100_000), "JSON"},
		{object(picture(1), `"caption":"one"`) + `{}`, "JSON"},
		{object(bytes.Repeat(picture(3), 2000), `"caption":"a long line"`), ""},
		{object(picture(2), `"caption":"last"`), ""},
	}
	var body strings.Builder
	for _, l := range lines {
		body.WriteString(l.line + "\r\n")
	}
	status, got, _ := d.post("application/x-ndjson", []byte(strings.TrimSuffix(body.String(), "\r\n")))
	if status != http.StatusBadRequest {
		t.Errorf("status %d, want 400", status)
	}
	reasons, taken := map[int]string{}, map[int]bool{}
	for _, e := range got.Errors {
		reasons[e.Index] = e.Error
	}
	pairs, records := d.published()
	for _, p := range got.Pairs {
		taken[p.Index] = true
		if pairs[p.ID] == nil {
			t.Errorf("line %d: %s is not on the log", p.Index, p.ID)
		}
	}
	for i, l := range lines {
		if taken[i] != (l.reason == "") || !strings.Contains(reasons[i], l.reason) || (reasons[i] == "") != (l.reason == "") {
			t.Errorf("line %d, %.60s: taken: %v, reason %q, want %q", i, l.line, taken[i], reasons[i], l.reason)
		}
	}
	if records != 3 {
		t.Errorf("%d records, want 3", records)
	}
}

// TestReasonsAreCut has lines whose words stand in the reason why they are refused.
func TestReasonsAreCut(t *testing.T) {
	d := open(t, nil)
	long := strings.Repeat("ä", 100_000)
	lines := object(picture(1), `"caption":"x","meta":{"`+long+`":[]}`) + "\n" + object(picture(1), `"caption":"x","`+long+`":1`) + "\n" + `{"url":"` + long + `","caption":"x"}`
	_, got, _ := d.post("application/x-ndjson", []byte(lines))
	if len(got.Errors) != 3 {
		t.Errorf("%d lines are refused, want three", len(got.Errors))
	}
	for _, e := range got.Errors {
		if len(e.Error) > 600 || !utf8.ValidString(e.Error) {
			t.Errorf("line %d: a reason of %d bytes: %.100q", e.Index, len(e.Error), e.Error)
		}
	}
}

func TestForms(t *testing.T) {
	d := open(t, nil)
	image := [2]string{"image", string(picture(1))}
	for name, test := range map[string]struct {
		fields []([2]string)
		pairs  int
		reason string
	}{
		"captions":       {[][2]string{{"caption", "a"}, image, {"caption", "b"}, {"meta", `{"w":1}`}, {"crawl_time", "5"}}, 2, ""},
		"no caption":     {[][2]string{image}, 0, "caption"},
		"no image":       {[][2]string{{"caption", "a"}}, 0, "no image"},
		"two images":     {[][2]string{image, image, {"caption", "a"}}, 0, "twice"},
		"an empty image": {[][2]string{{"image", ""}, {"caption", "a"}}, 0, "no image"},
		"another field":  {[][2]string{image, {"caption", "a"}, {"file", "a"}}, 0, `"file" is not known`},
		"a time of text": {[][2]string{image, {"caption", "a"}, {"crawl_time", "today"}}, 0, "crawl_time"},
		"broken columns": {[][2]string{image, {"caption", "a"}, {"meta", "w=1"}}, 0, "meta"},
	} {
		kind, body := form(t, test.fields...)
		status, got, _ := d.post(kind, body)
		switch {
		case test.reason == "" && (status != http.StatusOK || len(got.Pairs) != test.pairs):
			t.Errorf("%s: %d %+v", name, status, got)
		case test.reason != "" && (status != http.StatusBadRequest || len(got.Errors) != 1 || !strings.Contains(got.Errors[0].Error, test.reason)):
			t.Errorf("%s: %d %+v, want a reason with %q", name, status, got, test.reason)
		}
	}
}

func TestRequestsThatAreRefusedAsAWhole(t *testing.T) {
	d := open(t, func(o *ingest.Options) { o.Settings.MaxLag = 0 })
	huge := `{"caption":"x","image":"` + strings.Repeat("A", schemas.MaxImageBytes/3*4+128<<10) + `"}`
	kind, cut := form(t, [2]string{"image", string(picture(1))}, [2]string{"caption", "a"})
	large, largeBody := form(t, [2]string{"image", strings.Repeat("x", schemas.MaxImageBytes+1)})
	many := bytes.Repeat([]byte(object(picture(1), `"caption":"x"`)+"\n"), 10_001)
	captions := slices.Repeat([][2]string{{"caption", "a"}}, 10_001)
	words, wordsBody := form(t, append(captions, [2]string{"image", string(picture(1))})...)
	copies, copiesBody := form(t, append(captions[:300], [2]string{"image", strings.Repeat("x", 1<<20)})...)
	fields, fieldsBody := form(t, slices.Repeat([][2]string{{"caption", ""}}, 1<<20/64+1)...)
	for name, test := range map[string]struct {
		kind, body string
		status     int
		reason     string
	}{
		"no type":          {"", "{}", http.StatusUnsupportedMediaType, "Content-Type"},
		"another type":     {"text/html", "{}", http.StatusUnsupportedMediaType, "Content-Type"},
		"a large object":   {"application/json", huge, http.StatusRequestEntityTooLarge, "too large"},
		"a large line":     {"application/x-ndjson", huge, http.StatusRequestEntityTooLarge, "too large"},
		"many lines":       {"application/x-ndjson", string(many), http.StatusRequestEntityTooLarge, "10000 lines"},
		"a large image":    {large, string(largeBody), http.StatusRequestEntityTooLarge, `"image"`},
		"many captions":    {words, string(wordsBody), http.StatusRequestEntityTooLarge, "10001 captions"},
		"an image 300x":    {copies, string(copiesBody), http.StatusRequestEntityTooLarge, "300 captions with an image of 1048576 bytes each"},
		"many fields":      {fields, string(fieldsBody), http.StatusRequestEntityTooLarge, "besides the image have more than 1048576 bytes"},
		"a form that ends": {kind, string(cut[:len(cut)-20]), http.StatusBadRequest, "EOF"},
		"no boundary":      {"multipart/form-data", string(cut), http.StatusBadRequest, "form"},
	} {
		status, got, _ := d.post(test.kind, []byte(test.body))
		if status != test.status || !strings.Contains(got.Error, test.reason) || (len(got.Pairs) > 0) != (name == "many lines") {
			t.Errorf("%s: %d %.100q with %d pairs, want %d with %q", name, status, got.Error, len(got.Pairs), test.status, test.reason)
		}
	}
}

func TestCompressedBodies(t *testing.T) {
	d := open(t, nil)
	body := []byte(object(picture(1), `"caption":"x"`))
	if status, got, _ := d.post("application/json", body, "gzip"); status != http.StatusUnsupportedMediaType || !strings.Contains(got.Error, `Content-Encoding is "gzip"`) {
		t.Errorf("a compressed body: %d %q", status, got.Error)
	}
	if status, got, _ := d.post("application/json", body, "identity"); status != http.StatusOK {
		t.Errorf("a body as it is: %d %q", status, got.Error)
	}
}

// TestURLs downloads images, and refuses what lies inside of networks.
func TestURLs(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/ok") {
			_, _ = w.Write(picture(5))
			return
		}
		http.NotFound(w, r)
	}))
	defer web.Close()
	line := func(url string) string { return fmt.Sprintf(`{"url":%q,"caption":"from afar"}`, url) }
	urls := []string{web.URL + "/ok", web.URL + "/none", "http://169.254.169.254/latest/", "http://10.0.0.1/a.jpg", "ftp://example.org/a", "file:///etc/passwd"}
	want := map[int]string{1: "http_404", 2: "forbidden_address", 3: "forbidden_address", 4: "bad_url", 5: "bad_url"}
	body := ""
	for _, u := range urls {
		body += line(u) + "\n"
	}
	d := open(t, nil)
	status, got, _ := d.post("application/x-ndjson", []byte(body))
	if status != http.StatusBadRequest || len(got.Pairs) != 1 || got.Pairs[0].Index != 0 || len(got.Errors) != len(want) {
		t.Fatalf("%d %+v", status, got)
	}
	for _, e := range got.Errors {
		if !strings.Contains(e.Error, want[e.Index]) {
			t.Errorf("%s: %q, want %q", urls[e.Index], e.Error, want[e.Index])
		}
	}
	pairs, _ := d.published()
	if p := pairs[got.Pairs[0].ID]; p == nil || !bytes.Equal(p.Inline, picture(5)) || p.Source != web.URL+"/ok" {
		t.Errorf("published %+v", p)
	}
	for name, change := range map[string]func(*ingest.Options){
		"INGEST_URLS":       func(o *ingest.Options) { o.Settings.URLs = false },
		"forbidden_address": func(o *ingest.Options) { o.Loopback = false },
	} {
		if status, got, _ := open(t, change).post("application/json", []byte(line(web.URL+"/ok"))); status != http.StatusBadRequest || !strings.Contains(got.Errors[0].Error, name) {
			t.Errorf("%d %+v, want a reason with %s", status, got, name)
		}
	}
}

func TestLagAndEnd(t *testing.T) {
	lag := int64(10)
	d := open(t, func(o *ingest.Options) {
		o.Settings.MaxLag = 10
		o.Lag = func(context.Context) (int64, error) { return lag, nil }
	})
	body := []byte(object(picture(1), `"caption":"x"`))
	status, got, header := d.post("application/json", body)
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" || !strings.Contains(got.Error, "INGEST_MAX_LAG") {
		t.Errorf("behind: %d %+v, Retry-After %q", status, got, header.Get("Retry-After"))
	}
	d = open(t, nil)
	p := d.log.NewPublisher(stream.PublisherOptions{})
	if err := p.Publish(t.Context(), schemas.Pairs, 2, &schemas.Seal{Final: true}); err != nil || p.Close(t.Context()) != nil {
		t.Fatal(err)
	}
	if status, got, _ := d.post("application/json", body); status != http.StatusConflict || !strings.Contains(got.Error, "lane 2") {
		t.Errorf("a crawl that has ended: %d %+v", status, got)
	}
}

// TestLogThatDoesNotAnswer: a pair that the log has not acknowledged gets no id.
func TestLogThatDoesNotAnswer(t *testing.T) {
	d := open(t, func(o *ingest.Options) { o.AckTime = 200 * time.Millisecond })
	send := func(n int) (int, answer, http.Header) {
		return d.post("application/json", []byte(object(picture(n), `"caption":"x"`)))
	}
	status, got, _ := send(1)
	for status == http.StatusServiceUnavailable && t.Context().Err() == nil {
		status, got, _ = send(1) // a busy machine may take longer than AckTime
	}
	if status != http.StatusOK {
		t.Fatalf("%d %+v", status, got)
	}
	must.Do(t, d.end())
	status, got, header := send(2)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || len(got.Pairs) > 0 || !strings.Contains(got.Error, "send them again") {
		t.Errorf("%d %+v", status, got)
	}
	if status, got, _ := send(1); status != http.StatusServiceUnavailable || len(got.Pairs) > 0 {
		t.Errorf("a pair of which the log does not say any more that it is there: %d %+v", status, got)
	}
}

// TestHostileRequests sends the front door what no client should, beside many idle connections, and a pair behind it.
func TestHostileRequests(t *testing.T) {
	short := 300 * time.Millisecond
	d := open(t, func(o *ingest.Options) {
		o.Limits = service.HTTPLimits{Read: short, Write: short, Idle: short, Connections: 32}
	})
	torture.ThrowRequests(t, d.address[len("http://"):], torture.Requests("/openapi.yaml", "/v1/pairs"), 64)
	if pairs, _ := d.published(); len(pairs) > 0 {
		t.Errorf("%d pairs are on the log", len(pairs))
	}
	if status, got, _ := d.post("application/json", []byte(object(picture(1), `"caption":"after all that"`))); status != http.StatusOK {
		t.Errorf("a pair after hostile requests: %d %+v", status, got)
	}
}
