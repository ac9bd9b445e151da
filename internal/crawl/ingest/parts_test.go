package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// sender is a client that sends bytes, and no more.
type sender struct {
	since time.Time
	ends  func()
	ended bool
}

func (s *sender) Overdue() time.Duration { return time.Since(s.since) }
func (s *sender) MakeRoom()              { s.ended = true; s.ends() }

// TestBudget: requests take no more than there is, and give it back.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100 << 10)
		one, two := purse{of: b}, purse{of: b}
		if raw, err := one.read(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 40<<10))), 40<<10); err != nil || len(raw) != 40<<10 || one.taken != 64<<10 {
			t.Errorf("read %d bytes for %d of the budget, %v", len(raw), one.taken, err)
		}
		if _, err := two.read(strings.NewReader(strings.Repeat("x", 40<<10)), 40<<10); !errors.Is(err, errBusy) {
			t.Errorf("a second request: %v, want busy", err)
		}
		one.give()
		two.give()
		if b.left != 100<<10 {
			t.Errorf("%d bytes are left, want all", b.left)
		}
		if _, err := two.read(strings.NewReader("xxxx"), 3); !errors.Is(err, errLong) {
			t.Errorf("a long part: %v", err)
		}
	})
}

// TestSlowBodiesMakeRoom fills the memory with bodies that do not come to their end. Another request gets room: the
// client goes that keeps the server waiting for longest.
func TestSlowBodiesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var senders []*sender
		began := time.Now()
		for i := range 4 {
			p := &purse{of: b}
			s := &sender{since: began.Add(-time.Duration(i) * time.Minute)}
			p.from, s.ends = s, func() { time.AfterFunc(time.Millisecond, p.give) } // when its handler sees the error
			must.Do(t, p.take(25))
			senders = append(senders, s)
		}
		good := &purse{of: b, from: &sender{since: began}}
		must.Do(t, good.take(40))
		if senders[0].ended || senders[1].ended || !senders[2].ended || !senders[3].ended || time.Since(began) != 2*time.Millisecond {
			t.Errorf("after %s, the clients have ended: %v %v %v %v, want the last two", time.Since(began), senders[0].ended, senders[1].ended, senders[2].ended, senders[3].ended)
		}
		quick := &purse{of: b, from: &sender{since: time.Now().Add(time.Hour)}}
		must.Do(t, quick.take(10))
		senders[0].since, senders[1].since = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
		if err := good.take(1); !errors.Is(err, errBusy) {
			t.Errorf("beside clients that send quickly: %v, want busy", err)
		}
	})
}

// TestKnownPairsAreBounded acknowledges more pairs than are remembered.
func TestKnownPairsAreBounded(t *testing.T) {
	k := must.Get(newKnown(mostKnown))(t)
	era, now := &onlog.Era{}, time.Now()
	id := func(i int) schemas.PairID { return schemas.PairID{byte(i), byte(i >> 8), byte(i >> 16)} }
	link := func(i int) linkKey { return linkOf("http://host/", strconv.Itoa(i)) }
	for i := range mostKnown + 1 {
		k.add(taken{id: id(i), link: new(link(i))}, era, now)
	}
	_, first := k.linked(link(0), now)
	_, last := k.linked(link(mostKnown), now)
	if k.pairs.Len() != mostKnown || k.era(id(0)) != nil || k.era(id(mostKnown)) != era || k.links.Len() != mostKnown || first || !last {
		t.Errorf("%d pairs and %d URLs are remembered, want the last %d", k.pairs.Len(), k.links.Len(), mostKnown)
	}
	if _, found := k.linked(link(mostKnown), now.Add(linkTime)); found {
		t.Errorf("after %s a URL still counts as downloaded", linkTime)
	}
}

// TestGate looks at the log once for many requests, and counts what they publish.
func TestGate(t *testing.T) {
	var now time.Time
	looks, lag, fault := 0, int64(7), error(nil)
	g := gate{
		maxLag: 10, now: func() time.Time { return now }, patience: time.Minute,
		lag:   func(context.Context) (int64, error) { looks++; return lag, fault },
		ended: func(context.Context) (map[int]*schemas.Seal, error) { return nil, nil },
	}
	now = now.Add(time.Hour)
	step := func(what string, after time.Duration, wantLooks int, want bool) {
		t.Helper()
		now = now.Add(after)
		if err := g.admit(t.Context()); (err == nil) != want || looks != wantLooks {
			t.Errorf("%s: %v after %d looks, want admitted: %v after %d", what, err, looks, want, wantLooks)
		}
	}
	step("room for three", 0, 1, true)
	g.took(2)
	step("room for one", 0, 1, true)
	g.took(1)
	step("full", 0, 1, false)
	step("full, and looked a moment ago", lagEvery, 1, false)
	lag = 9
	step("the encoder went on", 1, 2, true)
	lag = 10
	step("at the bound", lagEvery+1, 3, false)
	fault = errors.New("no broker")
	step("no answer", lagEvery+1, 4, false)
	step("no answer a moment ago", 1, 4, false)
	fault, lag = nil, 0
	step("an answer", lagEvery+1, 5, true)
	g.maxLag = 0
	step("no bound", time.Hour, 5, true)
}

// TestLooksAreShared has many requests wait for a log that is silent. They wait for one answer, and one that comes
// later for another.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, silent := 0, errors.New("silent")
		g := gate{now: time.Now, patience: lookTime, ended: func(ctx context.Context) (map[int]*schemas.Seal, error) {
			asked++
			<-ctx.Done()
			return nil, silent
		}}
		began := time.Now()
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				if err := g.admit(t.Context()); !errors.Is(err, silent) {
					t.Errorf("%v, want the fault of the log", err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); asked != 1 || took != lookTime {
			t.Errorf("30 requests wait %s for %d answers, want %s for one", took, asked, lookTime)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Hour)
		if err := g.admit(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
		g.wait()
		if asked != 2 {
			t.Errorf("the log was asked %d times, want twice", asked)
		}
	})
}

// TestMembersAreBounded parses objects of very many members, wherever they stand: it stops at the first that no pair
// may have, and takes no memory for the others.
func TestMembersAreBounded(t *testing.T) {
	for body, want := range map[string]string{
		`{"caption":"x","image":"AAAA","meta":{%s}}`:    "meta: more than",
		`{"caption":"x","image":"AAAA","meta":{"a":{%s`: "meta.a: a list or an object",
		`{"caption":"x","image":"AAAA","meta":[{%s`:     "meta: want an object",
		`{"caption":"x","image":{%s}}`:                  "image: want the bytes",
		`{"caption":{%s}}`:                              "caption: a list or an object, want a text",
		`{"crawl_time":{%s}}`:                           "crawl_time: a list or an object, want an integer",
		`{"url":[{%s}]}`:                                "url: a list or an object",
		`{"other":{%s}}`:                                "unknown",
		`{%s}`:                                          "unknown",
	} {
		for _, member := range []string{`"%d":1`, `"%d":null`, `"%d":"xxxxxxxxxxxxxxxx"`} {
			var members strings.Builder
			for i := range 100_000 {
				fmt.Fprintf(&members, member+",", i)
			}
			raw := []byte(strings.Replace(body, "%s", members.String()+`"last":1`, 1))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := parse(raw)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), want) || took > 1<<20 {
				t.Errorf("%.40s: %d bytes of memory, and the error is %v, want %q", body, took, err, want)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	for name, test := range map[string]struct {
		environ map[string]string
		want    string
	}{
		"none":     {nil, ""},
		"loopback": {map[string]string{"INGEST_ADDR": "127.0.0.1:0"}, ""},
		"all":      {map[string]string{"INGEST_ADDR": ":8091"}, "INGEST_TOKEN"},
		"token":    {map[string]string{"INGEST_ADDR": ":8091", "INGEST_TOKEN": "0123456789abcdef"}, ""},
		"short":    {map[string]string{"INGEST_ADDR": ":8091", "INGEST_TOKEN": "0123456789abcde"}, "want at least 16"},
		"lag":      {map[string]string{"INGEST_MAX_LAG": "-1"}, "INGEST_MAX_LAG is -1"},
	} {
		_, err := config.Parse[Settings](test.environ)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// document is what the test reads of openapi.yaml.
type document struct {
	Paths map[string]map[string]struct {
		RequestBody struct{ Content map[string]any } `yaml:"requestBody"`
		Responses   map[string]any
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Properties map[string]schema
	Required   []string
	Items      *schema
	MaxLength  int `yaml:"maxLength"`
	Max        int `yaml:"maxProperties"`
}

// tagged lists the names of a struct in JSON.
func tagged(of any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func names[V any](m map[string]V) (out []string) {
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// TestDocument compares openapi.yaml with the code.
func TestDocument(t *testing.T) {
	var doc document
	must.Do(t, yaml.NewDecoder(bytes.NewReader(schemas.OpenAPI())).Decode(&doc))
	post, s := doc.Paths["/v1/pairs"]["post"], doc.Components.Schemas
	for what, lists := range map[string][2][]string{
		"a pair":         {names(s["Pair"].Properties), tagged(input{})},
		"a form":         {names(s["Form"].Properties), tagged(input{})},
		"an answer":      {names(s["Answer"].Properties), tagged(answer{})},
		"a pair taken":   {names(s["Answer"].Properties["pairs"].Items.Properties), tagged(taken{})},
		"what is taken":  {slices.Sorted(slices.Values(s["Answer"].Properties["pairs"].Items.Required)), tagged(taken{})},
		"a pair refused": {names(s["Answer"].Properties["errors"].Items.Properties), tagged(refused{})},
		"bodies":         {names(post.RequestBody.Content), {"application/json", "application/x-ndjson", "multipart/form-data"}},
		"statuses":       {names(post.Responses), {"200", "400", "401", "403", "408", "409", "413", "415", "421", "429", "503"}},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s: the document has %v, the code %v", what, lists[0], lists[1])
		}
	}
	p := s["Pair"].Properties
	for what, n := range map[string][2]int{
		"caption": {p["caption"].MaxLength, schemas.MaxCaptionBytes}, "source": {p["source"].MaxLength, schemas.MaxURIBytes}, "meta": {p["meta"].Max, schemas.MaxColumns},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: the document allows %d, the code %d", what, n[0], n[1])
		}
	}
	for _, text := range []string{"10,000 lines", "256 MiB", "at most 20 MiB", "20 seconds and 16 MiB", "have 30 seconds"} {
		if !bytes.Contains(schemas.OpenAPI(), []byte(text)) {
			t.Errorf("the document does not say %q", text)
		}
	}
	if http.StatusText(421) == "" || mostPairs != 10_000 || mostBody != 256<<20 || schemas.MaxImageBytes != 20<<20 || defaultDownloadTime != 30*time.Second {
		t.Error("the document tells other bounds than the code has")
	}
}
