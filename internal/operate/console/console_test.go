package console_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
	"github.com/pairstream/pairstream/schemas"
)

// site is a console on a log of its own.
type site struct {
	t       testing.TB
	log     *stream.Log
	index   *index.Index
	broker  *broker.Broker
	address string
	run     *runlog.Run
	options console.Options
}

func newLog(t testing.TB, dir string) (*broker.Broker, *stream.Log) {
	t.Helper()
	broker := must.Get(broker.Start(broker.Options{DataDir: dir}))(t)
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.RequestTimeout = []string{broker.Addr()}, 1, 2*time.Second
	log, err := stream.Connect(t.Context(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = log.EnsureTopics(t.Context())
	}
	must.Do(t, err)
	t.Cleanup(log.Close)
	return broker, log
}

// open starts a console on what a run has left; change adapts its options.
func open(t testing.TB, o runlog.Options, change func(*console.Options)) *site {
	t.Helper()
	return openAt(t, "", o, change)
}

// openAt keeps the log in a folder, so that another broker can go on with it.
func openAt(t testing.TB, dir string, o runlog.Options, change func(*console.Options)) *site {
	t.Helper()
	s := &site{t: t}
	s.broker, s.log = newLog(t, dir)
	t.Cleanup(func() { _ = s.broker.Close() }) // some tests have closed it
	o.Dir = t.TempDir()
	var err error
	if s.run, err = runlog.Write(t.Context(), s.log, o); err != nil {
		t.Fatal(err)
	}
	bucket := must.Get(shard.OpenBucket(t.Context(), []string{"file://" + o.Dir}, nil))(t)
	s.index = must.Get(index.Open(t.Context(), s.log, index.Options{Dir: t.TempDir(), Pairs: 2_000_000, High: 0.8, Low: 0.5}))(t)
	t.Cleanup(s.index.Close)
	options := console.Options{
		Settings: console.Settings{Addr: "127.0.0.1:0", IndexPairs: 1_000_000}, Log: s.log, Index: s.index, GroupSize: 1000, High: 0.8, Low: 0.5,
		Images: shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: 8 << 20}), Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&options)
	}
	s.options = options
	listener := must.Get(console.Listen(options.Settings))(t)
	server := must.Get(console.New(options, listener))(t)
	s.address = console.Address(listener)
	must.Do(t, s.index.Fill(t.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.Check(t, <-done)
	})
	return s
}

// ask sends a request and returns the status and the body.
func (s *site) ask(method, path string, headers map[string]string, form url.Values) (int, string, http.Header) {
	s.t.Helper()
	request := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.address+path, strings.NewReader(form.Encode())))(s.t)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range headers {
		if k == "Host" {
			request.Host = v
		}
		request.Header.Set(k, v)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response := must.Get(client.Do(request))(s.t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(s.t)
	return response.StatusCode, string(body), response.Header
}

func (s *site) get(path string) string {
	s.t.Helper()
	status, body, _ := s.ask(http.MethodGet, path, nil, nil)
	if status != http.StatusOK {
		s.t.Fatalf("%s: status %d\n%s", path, status, body)
	}
	return body
}

var small = runlog.Options{Pairs: 240, Batch: 24, Epochs: 3, DeadLetters: 7}

func TestPagesShowARun(t *testing.T) {
	s := open(t, small, nil)
	pair := s.run.Pairs[7]
	for path, wants := range map[string][]string{
		"/":                              {"Flow", pair.Caption[:4], "240 pairs", "/pairstream/main/console/\""},
		"/pairs/" + pair.ID.String():     {pair.Caption, "obj(v)", "Nearest texts", "Mini-batch", "Equivalent images", "Epoch 2", "positive", "negative", "published", "embedded", "its group was closed", "put into a mini-batch, epoch 2", "scored by Con-D, epoch 0", "trained on, epoch 2"},
		"/groups":                        {`href="/groups/0/0"`, "240"},
		"/groups/0/0":                    {"240 pairs", "8 clusters", "Nearest to the centroid", "circle", "median", "k1, nearest images"},
		"/groups/0/0/batches/1/2":        {"24 pairs", "GRIT-VLP", "false negative", "As many pairs of the epoch at random"},
		"/groups/0/0/batches/0/0":        {"chosen at random"},
		"/connections/0/0":               {"None of these has been judged yet", "A random sample", `value="match"`},
		"/training":                      {"Contrastive loss (ITC)", "step 29", "tr_r1", "35"},
		"/training/curves":               {`"loss_itc"`, `"x":[0,1,2`},
		"/dead-letters":                  {"unusable image", "7 letters", "encoder", "indexer"},
		"/dead-letters?reason=malformed": {"2 letters"},
		"/dead-letters/0":                {"malformed", "no record", "lane 0, offset 1,000,000"},
		"/search?q=RED+circle":           {"a red circle"},
		"/replays":                       {"CONSOLE_MANIFESTS"},
	} {
		body := s.get(path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
	}
	for path, want := range map[string]int{
		"/pairs/zz": 400, "/pairs/" + strings.Repeat("0", 32): 404, "/groups/0/9": 404, "/groups/-1/0": 400, "/groups/0/0/batches/0/99": 404,
		"/nothing": 404, "/dead-letters/99": 410, "/replays/..%2fx": 400, "/connections/0/0?sample=all": 400, "/dead-letters?before=x": 400,
	} {
		if got, _, _ := s.ask(http.MethodGet, path, nil, nil); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
}

func TestThumbnailsAreEncodedAnew(t *testing.T) {
	s := open(t, small, nil)
	status, body, h := s.ask(http.MethodGet, "/thumbs/"+s.run.Pairs[0].ID.String()+"?s=s", nil, nil)
	if status != 200 || h.Get("Content-Type") != "image/jpeg" || !strings.HasPrefix(body, "\xff\xd8") {
		t.Fatalf("status %d, type %q", status, h.Get("Content-Type"))
	}
	if int64(len(body)) == s.run.Pairs[0].Image.Size {
		t.Error("the thumbnail is as long as the file")
	}
	missing := open(t, runlog.Options{Pairs: 3, NoImages: true}, nil)
	status, body, h = missing.ask(http.MethodGet, "/thumbs/"+missing.run.Pairs[0].ID.String(), nil, nil)
	if status != 200 || h.Get("Content-Type") != "image/svg+xml" || !strings.Contains(body, "missing") {
		t.Errorf("a missing image: status %d, type %q, %s", status, h.Get("Content-Type"), body)
	}
}

func TestHostileCaptionsAreText(t *testing.T) {
	script := `<script>alert(1)</script><img src=x onerror=alert(2)>`
	bidi := "safe \u202egnp.exe\u2066 \u200b end"
	long := strings.Repeat("long ", 1500)
	s := open(t, runlog.Options{Pairs: 24, Batch: 24, Epochs: 1, Captions: map[int]string{0: script, 1: bidi, 2: long}}, nil)
	for i := range 3 {
		for _, path := range []string{"/", "/pairs/" + s.run.Pairs[i].ID.String(), "/groups/0/0/batches/0/0"} {
			body := s.get(path)
			for _, bad := range []string{"<script>alert", "<img src=x", "\u202e", "\u2066", "\u200b"} {
				if strings.Contains(body, bad) {
					t.Errorf("%s has %q as it came", path, bad)
				}
			}
			if len(body) > 200_000 {
				t.Errorf("%s has %d bytes", path, len(body))
			}
		}
	}
}

func TestHeadersForbidWhatPagesDoNotNeed(t *testing.T) {
	s := open(t, runlog.Options{}, nil)
	for _, path := range []string{"/", "/nothing", "/static/console.js"} {
		_, body, h := s.ask(http.MethodGet, path, nil, nil)
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", path)
		}
		if strings.Contains(body, " style=") || strings.Contains(body, "onclick=") {
			t.Errorf("%s has inline style or script, which the policy forbids", path)
		}
	}
}

func TestOnlyThisMachineIsServedWithoutAToken(t *testing.T) {
	s := open(t, runlog.Options{}, nil)
	if status, _, _ := s.ask(http.MethodGet, "/", map[string]string{"Host": "evil.example:80"}, nil); status != http.StatusMisdirectedRequest {
		t.Errorf("another name is answered with %d", status)
	}
	for _, tt := range []struct {
		console.Settings
		want string
	}{
		{console.Settings{Addr: "0.0.0.0:8090", Dir: "x", IndexPairs: 1000}, "CONSOLE_TOKEN"},
		{console.Settings{Addr: ":8090", Dir: "x", IndexPairs: 1000}, "CONSOLE_TOKEN"},
		{console.Settings{Addr: ":8090", Dir: "x", IndexPairs: 1000, Token: "short"}, "at least 8"},
		{console.Settings{Addr: "nowhere", Dir: "x", IndexPairs: 1000}, "CONSOLE_ADDR"},
		{console.Settings{Addr: "127.0.0.1:1", IndexPairs: 1000}, "CONSOLE_DIR"},
		{console.Settings{Addr: "127.0.0.1:1", Dir: "x", IndexPairs: 1000, LiveURL: "localhost"}, "CONSOLE_LIVE_URL"},
		{console.Settings{Addr: "127.0.0.1:1", Dir: "x", IndexPairs: 1000}, ""},
		{console.Settings{Addr: ":8090", Dir: "x", IndexPairs: 1000, Token: "long enough"}, ""},
		{console.Settings{Addr: ":8090", Dir: "x", IndexPairs: 1000, UserHeader: "X-Remote-User"}, ""},
		{console.Settings{Addr: "off"}, ""},
	} {
		err := tt.Validate()
		if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.Settings, err, tt.want)
		}
	}
}

func TestTokenAndProxy(t *testing.T) {
	s := open(t, runlog.Options{Pairs: 5}, func(o *console.Options) { o.Settings.Token = "a long token" })
	status := func(headers map[string]string) int {
		code, _, _ := s.ask(http.MethodGet, "/groups", headers, nil)
		return code
	}
	code, _, h := s.ask(http.MethodPost, "/login", map[string]string{"Sec-Fetch-Site": "same-origin"}, url.Values{"token": {"a long token"}, "next": {"//evil.example"}})
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if code != http.StatusSeeOther || h.Get("Location") != "/" || !strings.Contains(h.Get("Set-Cookie"), "HttpOnly") || !strings.Contains(h.Get("Set-Cookie"), "SameSite=Strict") {
		t.Fatalf("logging in: %d, to %q, cookie %q", code, h.Get("Location"), h.Get("Set-Cookie"))
	}
	for name, tt := range map[string]struct {
		headers map[string]string
		want    int
	}{
		"nothing":      {nil, 401},
		"wrong token":  {map[string]string{"Authorization": "Bearer a wrong token"}, 401},
		"token":        {map[string]string{"Authorization": "bearer a long token"}, 200},
		"cookie":       {map[string]string{"Cookie": cookie}, 200},
		"wrong cookie": {map[string]string{"Cookie": cookie[:len(cookie)-1] + "x"}, 401},
		"user header":  {map[string]string{"X-Forwarded-User": "me"}, 401},
	} {
		if got := status(tt.headers); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if code, _, _ := s.ask(http.MethodPost, "/login", nil, url.Values{"token": {"wrong"}}); code != 401 {
		t.Errorf("a wrong token logs in with %d", code)
	}
	proxied := open(t, runlog.Options{Pairs: 5}, func(o *console.Options) { o.Settings.UserHeader = "X-Forwarded-User" })
	if code, _, _ := proxied.ask(http.MethodGet, "/", nil, nil); code != 401 {
		t.Errorf("a request past the proxy: %d", code)
	}
	if code, _, _ := proxied.ask(http.MethodGet, "/", map[string]string{"X-Forwarded-User": "me"}, nil); code != 200 {
		t.Errorf("a request of the proxy: %d", code)
	}
}

func TestOnlyTheConsoleJudges(t *testing.T) {
	s := open(t, small, nil)
	body := s.get("/connections/0/0")
	value := func(name string) string {
		_, rest, _ := strings.Cut(body, `name="`+name+`" value="`)
		v, _, _ := strings.Cut(rest, `"`)
		return v
	}
	form := url.Values{"image": {value("image")}, "text": {value("text")}, "sample": {"random"}, "verdict": {"match"}}
	count := func() int {
		n := 0
		for _, err := range s.log.Records(t.Context(), schemas.Judgements, 0, stream.Position{}, -1) {
			must.Do(t, err)
			n++
		}
		return n
	}
	for name, headers := range map[string]map[string]string{
		"another site": {"Sec-Fetch-Site": "cross-site"}, "a neighbour": {"Sec-Fetch-Site": "same-site"}, "another origin": {"Origin": "https://evil.example"}, "no origin": nil,
	} {
		if code, _, _ := s.ask(http.MethodPost, "/judgements", headers, form); code != http.StatusForbidden {
			t.Errorf("%s: status %d", name, code)
		}
	}
	if code, _, _ := s.ask(http.MethodGet, "/judgements?"+form.Encode(), nil, nil); code == 200 {
		t.Error("GET judges")
	}
	if n := count(); n != 0 {
		t.Fatalf("%d judgements were written", n)
	}
	own := map[string]string{"Sec-Fetch-Site": "same-origin", "Accept": "text/plain"}
	code, text, _ := s.ask(http.MethodPost, "/judgements", own, form)
	if code != 200 || !strings.HasPrefix(text, "1 of 1 are matches: 100 %, with 95 % certainty from 21 to 100 %") {
		t.Fatalf("status %d: %s", code, text)
	}
	if n := count(); n != 1 {
		t.Errorf("%d judgements in the log, want 1", n)
	}
	form.Set("verdict", "none")
	if _, text, _ = s.ask(http.MethodPost, "/judgements", own, form); text != "None of these has been judged yet." {
		t.Errorf("taking it back leaves %q", text)
	}
	for name, spoil := range map[string][2]string{"verdict": {"verdict", "maybe"}, "sample": {"sample", "all"}, "pair": {"image", "x"}} {
		bad := url.Values{}
		maps.Copy(bad, form)
		bad.Set(spoil[0], spoil[1])
		if code, _, _ := s.ask(http.MethodPost, "/judgements", own, bad); code != 400 {
			t.Errorf("a bad %s: %d", name, code)
		}
	}
}

func TestEmptyLog(t *testing.T) {
	s := open(t, runlog.Options{}, nil)
	for path, want := range map[string]string{
		"/": "No pair has been encoded yet", "/groups": "No group has closed yet", "/connections": "Con-D has found none yet", "/training": "has not reported",
		"/dead-letters": "There are none", "/search?q=dog": "Nothing found", "/replays": "CONSOLE_MANIFESTS",
	} {
		if body := s.get(path); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q", path, want)
		}
	}
}

// TestPagesWithoutKafka closes the broker: what the index has is shown all the same.
func TestPagesWithoutKafka(t *testing.T) {
	s := open(t, small, nil)
	must.Do(t, s.broker.Close())
	for _, path := range []string{"/", "/groups", "/groups/0/0", "/connections/0/0", "/training", "/dead-letters"} {
		s.get(path)
	}
	if body := s.get("/pairs/" + s.run.Pairs[3].ID.String()); !strings.Contains(body, "Something is missing here") || !strings.Contains(body, s.run.Pairs[3].Caption) {
		t.Error("a pair's page does not say what is missing, or its caption")
	}
	if code, _, _ := s.ask(http.MethodGet, "/groups/0/0/batches/1/2", nil, nil); code != http.StatusServiceUnavailable {
		t.Errorf("a mini-batch without Kafka: %d", code)
	}
}

// A report that knows the truth marks wrong connections. It begins with the result and pictures, each chart has a key,
// and it ends with commands.
func TestReportTellsWhatIsKnown(t *testing.T) {
	s := open(t, small, nil)
	asked := 0
	s.options.Known = console.Known{
		Titles: map[string]string{"": "GRIT & more"}, Result: "GRIT <won>.", Next: []string{"pairstream compare a.json b.json"},
		Fits: func(image schemas.ImageID, caption string) bool {
			if image == (schemas.ImageID{}) || caption == "" {
				t.Errorf("asked about the picture %s and %q", image, caption)
			}
			asked++
			return asked%3 == 0
		},
	}
	var b strings.Builder
	must.Do(t, console.Report(t.Context(), &b, s.options))
	page := b.String()
	wrong := strings.Count(page, `<div class="card wrong">`)
	if wrong == 0 || wrong != asked-asked/3 || strings.Count(page, `<p class="mark">wrong</p>`) != wrong || strings.Count(page, `<p class="mark">true</p>`) != asked/3 {
		t.Errorf("%d of %d connections are marked as wrong", wrong, asked)
	}
	if want := strconv.Itoa(wrong) + " of these " + strconv.Itoa(asked) + " are wrong"; !strings.Contains(page, want) {
		t.Errorf("the report does not say %q", want)
	}
	order := []string{`<main>`, `<p class="result">GRIT &lt;won&gt;.</p>`, `<img src="data:`, `<div class="facts">`, "<svg", "pairstream compare a.json b.json", "</main>"}
	for i, want := range order[1:] {
		if before := strings.Index(page, order[i]); before < 0 || strings.Index(page, want) < before {
			t.Errorf("%q does not come after %q", want, order[i])
		}
	}
	figures := strings.Count(page, "<figure>")
	if keys := strings.Count(page, `<p class="legend"><span>`); figures == 0 || keys != figures || !strings.Contains(page, "GRIT &amp; more</span>") {
		t.Errorf("%d of %d charts have a key", keys, figures)
	}
	for head := range strings.SplitSeq(page, "<thead>") {
		if strings.HasPrefix(head, "<tr><th></th>") || strings.Contains(head, "<th></th>") {
			t.Errorf("a table's head is empty: %.100s", head)
		}
	}
}

func TestReportNeedsNothingElse(t *testing.T) {
	s := open(t, small, nil)
	var b strings.Builder
	must.Do(t, console.Report(t.Context(), &b, s.options))
	page := b.String()
	for _, want := range []string{"<strong>240</strong><span>pairs</span>", "<strong>30</strong><span>mini-batches</span>", "Contrastive loss (ITC)", "<svg", "data:image/jpeg;base64,", "Equivalent images", "random", "grit", "7</strong><span>dead letters"} {
		if !strings.Contains(page, want) {
			t.Errorf("the report does not have %q", want)
		}
	}
	for _, bad := range []string{"<script", `src="/`, `href="`, `src="http`, "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("the report has %q", bad)
		}
	}
}
