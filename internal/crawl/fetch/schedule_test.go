package fetch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// stage plays a schedule against a clock of its own. Hosts are named by a letter.
type stage struct {
	*schedule
	t     *testing.T
	now   time.Time
	order int64
	rules map[string]*rules
	asked []string // whose robots.txt was wanted
}

func newStage(t *testing.T, l limits) *stage {
	t.Helper()
	s := must.Get(newSchedule(l))(t)
	return &stage{schedule: s, t: t, now: time.Unix(1, 0)}
}

// rows queues rows of a host, and reports whether it took them.
func (s *stage) rows(host string, n int) (taken bool) {
	s.t.Helper()
	for range n {
		s.order++
		k := &task{order: s.order}
		must.Do(s.t, k.goTo("http://"+host+"/", nil))
		taken = s.add(k, s.now)
	}
	return taken
}

// start takes all tasks that may go now.
func (s *stage) start() (started []*task, again time.Duration) {
	for {
		k, at := s.next(s.now)
		if k == nil {
			if !at.IsZero() {
				again = at.Sub(s.now)
			}
			return started, again
		}
		started = append(started, k)
	}
}

func (s *stage) endAll(tasks []*task, took time.Duration, o ending) (pause time.Duration, givenUp int) {
	s.now = s.now.Add(took)
	for _, k := range tasks {
		p, g := s.end(k, took, o, s.now)
		pause, givenUp = max(pause, p), givenUp+len(g)
	}
	return pause, givenUp
}

// known makes hosts known to give images.
func (s *stage) known(hosts ...string) {
	s.t.Helper()
	for _, host := range hosts {
		s.rows(host, 1)
		started, _ := s.start()
		s.endAll(started, 0, gaveImage)
	}
	s.now = s.now.Add(time.Second)
}

func names(tasks []*task) (out []string) {
	for _, k := range tasks {
		out = append(out, k.at.Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var usual = limits{threads: 16, perHost: 4, rate: 10, timeout: 8 * time.Second}

// TestARowTakesAThreadWhenItsHostsTurnHasCome has more rows of a host than threads, and then rows of another one.
func TestARowTakesAThreadWhenItsHostsTurnHasCome(t *testing.T) {
	s := newStage(t, usual)
	s.known("a", "b")
	s.rows("a", 100)
	s.rows("b", 2)
	started, _ := s.start()
	if got := fmt.Sprint(names(started), len(started)); got != "[a b] 6" {
		t.Errorf("%s start, want four of a and two of b", got)
	}
	s.endAll(started[:1], 0, gaveImage)
	if more, again := s.start(); len(more) != 0 || again <= 90*time.Millisecond || again > 101*time.Millisecond {
		t.Errorf("%d more start, and the next in %v, want none for a tenth of a second: the rate is 10", len(more), again)
	}
	s.now = s.now.Add(101 * time.Millisecond)
	if more, _ := s.start(); len(more) != 1 || more[0].order != 7 {
		t.Errorf("%d more start, want the fifth row of a", len(more))
	}
	// A row that was refused by robots.txt has cost the host nothing.
	s.endAll(started[1:2], 0, refused)
	if more, _ := s.start(); len(more) != 1 {
		t.Errorf("%d more start behind one that was refused, want one", len(more))
	}
}

// TestAHostHasSoManyAtOnce has a rate that bounds nothing.
func TestAHostHasSoManyAtOnce(t *testing.T) {
	l := usual
	l.rate = 1e6
	s := newStage(t, l)
	s.known("a")
	s.rows("a", 100)
	started, _ := s.start()
	s.now = s.now.Add(time.Second / 4)
	if more, _ := s.start(); len(started) != l.perHost || len(more) > 0 {
		t.Errorf("%d and %d start, want %d in all", len(started), len(more), l.perHost)
	}
	s.endAll(started[:2], 0, gaveImage)
	if more, _ := s.start(); len(more) != 2 {
		t.Errorf("%d start when two have ended", len(more))
	}
}

// TestRowsThatNobodyWantsAreRemoved removes the first row of a host, and one that is not there.
func TestRowsThatNobodyWantsAreRemoved(t *testing.T) {
	s := newStage(t, usual)
	s.known("a")
	s.rows("a", 3)
	first := s.active["http://a"].rows[0]
	if !s.remove(first, s.now) || s.remove(first, s.now) {
		t.Error("a row is not removed, or twice")
	}
	started, _ := s.start()
	if len(started) != 2 || started[0].order != first.order+1 {
		t.Errorf("%d rows start, want the other two", len(started))
	}
	if s.remove(started[0], s.now) {
		t.Error("a row that runs is removed")
	}
	s.endAll(started, 0, answered)
	if s.remove(first, s.now) || len(s.active) > 0 {
		t.Errorf("%d hosts have rows", len(s.active))
	}
}

// TestThreadsAreKeptForQuickHosts fills the threads with hosts that do not answer.
func TestThreadsAreKeptForQuickHosts(t *testing.T) {
	s := newStage(t, usual)
	s.known("good")
	for i := range 300 {
		s.rows(fmt.Sprint("new", i), 4)
	}
	started, again := s.start()
	if len(started) != 12 || again != time.Second/8 {
		t.Fatalf("%d start, and some more in %v, want three quarters of the threads, and an eighth of a second", len(started), again)
	}
	s.rows("good", 4)
	if quick, _ := s.start(); fmt.Sprint(names(quick), len(quick)) != "[good] 4" {
		t.Errorf("%v start, want the four of good", names(quick))
	}
	// What takes long frees its thread, up to four times the threads.
	total := 16
	for range 20 {
		s.now = s.now.Add(2 * time.Second)
		more, _ := s.start()
		total += len(more)
	}
	if want := 16*maxStalled + 12; total != want {
		t.Errorf("%d run at once, want %d", total, want)
	}
	s.rows("good", 1)
	if quick, _ := s.start(); len(quick) > 0 {
		t.Errorf("a fifth row of a host starts beside four of it")
	}
}

// TestNewHostsTakeOneThread has hosts that do not answer. Each gets a thread, and the next one when that was given
// back.
func TestNewHostsTakeOneThread(t *testing.T) {
	s := newStage(t, usual)
	s.rows("dead", 100)
	s.rows("new", 100)
	for i := range usual.perHost {
		started, again := s.start()
		if fmt.Sprint(names(started), len(started)) != "[dead new] 2" || again != time.Second/8 {
			t.Errorf("round %d: %v start, and some more in %v, want one of each host, and an eighth of a second", i, names(started), again)
		}
		s.now = s.now.Add(time.Second / 8)
	}
	if started, _ := s.start(); len(started) > 0 {
		t.Errorf("%v start beside as many as a host may have", names(started))
	}
	if h := s.host("http://dead", s.now); h.stalled != usual.perHost {
		t.Errorf("%d rows of a host wait without a thread, want %d", h.stalled, usual.perHost)
	}
}

// TestThreadsAreGivenBack has a host that has answered and one that has not. The second gives its thread back earlier.
func TestThreadsAreGivenBack(t *testing.T) {
	s := newStage(t, usual)
	s.known("good")
	s.rows("good", 1)
	s.rows("new", 1)
	for i, want := range []time.Duration{usual.timeout / probePart, usual.timeout/stallPart - usual.timeout/probePart, 0} {
		_, again := s.start()
		if again != want || s.stalled != i {
			t.Errorf("round %d: %d wait without a thread, and the next one will in %v, want %v", i, s.stalled, again, want)
		}
		s.now = s.now.Add(again)
	}
}

// TestHostsThatGiveImagesGoFirst has ready rows of hosts that answer at once, half of them without an image. Those come
// first in the list, and get an eighth of the threads.
func TestHostsThatGiveImagesGoFirst(t *testing.T) {
	s := newStage(t, usual)
	for i := range 8 {
		s.known(fmt.Sprint("good", i))
		s.rows(fmt.Sprint("barren", i), 1)
		started, _ := s.start()
		s.endAll(started, 0, answered)
	}
	for _, kind := range []string{"barren", "good"} {
		for i := range 8 {
			s.rows(fmt.Sprint(kind, i), 40)
		}
	}
	started, _ := s.start()
	doubted := 0
	for _, k := range started {
		if k.class == doubtful {
			doubted++
		}
	}
	if len(started) != 16 || doubted != 2 {
		t.Errorf("%d rows start, %d of them of hosts without an image, want 16 and 2", len(started), doubted)
	}
}

// TestImagesAreWorthMore has hosts that give an image now and then.
func TestImagesAreWorthMore(t *testing.T) {
	s := newStage(t, usual)
	s.known("a")
	for i := range imageWorth {
		if h := s.host("http://a", s.now); h.class() != quick {
			t.Errorf("behind an image and %d rows without one, the host is in doubt", i)
		}
		s.rows("a", 1)
		started, _ := s.start()
		s.endAll(started, time.Second/2, answered)
	}
	h := s.host("http://a", s.now)
	if h.class() != doubtful {
		t.Errorf("behind an image and %d rows without one, the host's class is %d", imageWorth, h.class())
	}
	for _, o := range []ending{ledOn, refused, cutShort} {
		h.worth = 1
		s.rows("a", 1)
		started, _ := s.start()
		if s.endAll(started, time.Second/2, o); h.worth != 1 {
			t.Errorf("ending %d makes the worth %d, want 1", o, h.worth)
		}
	}
}

// TestSlowHostsTakeNoThreads has hosts that answer, and slowly.
func TestSlowHostsTakeNoThreads(t *testing.T) {
	s := newStage(t, usual)
	for i := range 20 {
		s.rows(fmt.Sprint("slow", i), 60)
	}
	var started []*task
	for range 200 {
		started, _ = s.start()
		s.endAll(started, 3*time.Second, answered)
	}
	for i := range 20 {
		s.rows(fmt.Sprint("slow", i), 20)
	}
	if started, _ = s.start(); len(started) != maxSlow*16 {
		t.Fatalf("%d rows of slow hosts start, want %d", len(started), maxSlow*16)
	}
	s.rows("new", 4)
	if more, _ := s.start(); fmt.Sprint(names(more), len(more)) != "[new] 1" {
		t.Errorf("%v start beside them, want one of new", names(more))
	}
	s.endAll(started, time.Millisecond, gaveImage)
	for range 2 * slowCost { // a host that is quick again as often is no slow one any more
		s.now = s.now.Add(time.Second)
		s.rows("slow0", 1)
		started, _ = s.start()
		s.endAll(started, time.Millisecond, gaveImage)
	}
	h := s.host("http://slow0", s.now)
	if h.class() != quick {
		t.Errorf("the host's class is %d, want quick", h.class())
	}
	// One that was quick for long has a slow answer to spare.
	h.trust = maxTrust
	s.now = s.now.Add(time.Second)
	s.rows("slow0", 1)
	started, _ = s.start()
	s.endAll(started, 3*time.Second, answered)
	if h.class() != quick || h.trust != maxTrust-slowCost {
		t.Errorf("one slow answer makes the class %d, and the trust %d", h.class(), h.trust)
	}
}

// TestHostsAreSetAside has a host that times out, one that answers in between, and a pause that ends well.
func TestHostsAreSetAside(t *testing.T) {
	s := newStage(t, usual)
	s.known("dead")
	s.rows("dead", 20)
	started, _ := s.start()
	if pause, givenUp := s.endAll(started[:3], 8*time.Second, timedOut); pause != 0 || givenUp != 0 {
		t.Errorf("three timeouts: a pause of %v", pause)
	}
	if pause, givenUp := s.endAll(started[3:], 0, timedOut); pause != 16*time.Second || givenUp != 0 {
		t.Errorf("four timeouts: a pause of %v, and %d rows given up, want twice the timeout, and none", pause, givenUp)
	}
	if more, again := s.start(); len(more) != 0 || again != 16*time.Second {
		t.Errorf("in the pause %d start, the next in %v", len(more), again)
	}
	// A redirect to it waits as well.
	s.rows("dead", 1)
	s.now = s.now.Add(16 * time.Second)
	probe, _ := s.start()
	if len(probe) != 1 {
		t.Fatalf("behind the pause %d start, want one", len(probe))
	}
	if pause, givenUp := s.endAll(probe, 8*time.Second, timedOut); pause != 32*time.Second || givenUp != 16 {
		t.Errorf("the try fails: a pause of %v, and %d rows given up", pause, givenUp)
	}
	if s.rows("dead", 1) {
		t.Error("a row is queued at a host that is given up")
	}
	s.now = s.now.Add(32 * time.Second)
	if !s.rows("dead", 3) {
		t.Error("no row is queued behind the pause")
	}
	probe, _ = s.start()
	s.endAll(probe, time.Millisecond, answered)
	if more, _ := s.start(); len(probe) != 1 || len(more) != 2 {
		t.Errorf("%d and then %d start when the host answers again, want 1 and 2", len(probe), len(more))
	}
}

// TestTimeoutsInARow counts only those.
func TestTimeoutsInARow(t *testing.T) {
	s := newStage(t, usual)
	s.known("busy")
	s.rows("busy", 100)
	for i := range 20 {
		s.now = s.now.Add(time.Second)
		started, _ := s.start()
		if len(started) != 4 {
			t.Fatalf("round %d: %d start, want four", i, len(started))
		}
		s.endAll(started[:1], time.Second, answered)
		if pause, _ := s.endAll(started[1:], 8*time.Second, timedOut); pause != 0 {
			t.Errorf("round %d: set aside for %v, behind three timeouts in a row", i, pause)
		}
	}
}

// TestRobotsAreReadFirst has a host whose rules are not known, and one whose rules are given up before its turn.
func TestRobotsAreReadFirst(t *testing.T) {
	s := newStage(t, usual)
	s.rules = map[string]*rules{}
	s.rulesOf = func(host string, _ time.Time) *rules { return s.rules[host] }
	s.ask = func(host string) *task {
		s.asked = append(s.asked, host)
		k := &task{robotsOf: host}
		must.Do(t, k.goTo(host+"/robots.txt", nil))
		return k
	}
	s.rows("a", 10)
	started, _ := s.start()
	if len(started) != 1 || started[0].robotsOf != "http://a" {
		t.Fatalf("%d start, want robots.txt", len(started))
	}
	s.rules["http://a"] = &rules{}
	s.rulesCame("http://a", s.now)
	s.endAll(started, time.Millisecond, answered)
	delete(s.rules, "http://a") // as if those of other hosts took the room
	again, _ := s.start()
	if len(again) != 1 || again[0].robotsOf != "http://a" || len(s.asked) != 2 {
		t.Fatalf("%d start, want robots.txt once more", len(again))
	}
	s.rules["http://a"] = &rules{}
	s.rulesCame("http://a", s.now)
	s.endAll(again, time.Millisecond, answered)
	rows, _ := s.start()
	if len(rows) != 1 || rows[0].rules == nil {
		t.Errorf("%d start, want a row with its rules", len(rows))
	}
}

// TestHostNames has forms of one name: whoever writes a list with them gets no more of a host than with one.
func TestHostNames(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Example.COM/a": "http://example.com", "http://example.com.:80/": "http://example.com", "https://example.com:443": "https://example.com",
		"https://example.com:80": "https://example.com:80", "http://example.com:080/": "http://example.com", "http://example.com:0008080/": "http://example.com:8080",
		"http://EXÄMPLE.com/": "http://xn--exmple-cua.com", "http://ex%C3%A4mple.com/": "http://xn--exmple-cua.com", "http://ｅｘａｍｐｌｅ。com/": "http://example.com",
		"http://[2606:4700:0:0:0:0:0:1]/": "http://[2606:4700::1]", "http://[::FFFF:1.2.3.4]/": "http://1.2.3.4", "http://[2606:4700::1]:8080/": "http://[2606:4700::1]:8080",
	} {
		k := new(task)
		if err := k.goTo(raw, nil); err != nil || k.host != want {
			t.Errorf("%s: %q, %v, want %q", raw, k.host, err, want)
		}
	}
}

// TestBadHosts refuses names that lead nowhere.
func TestBadHosts(t *testing.T) {
	for _, raw := range []string{
		"http://example.com:65536/", "http://example.com:99999999999999999999/", "http://user@example.com/", "http://:80/",
		"data:image/png;base64,AAAA", "//example.com/a", "example.com/a", "http://" + strings.Repeat("a", 300) + "/", "http://" + strings.Repeat("ä", 300) + "/",
	} {
		k := new(task)
		if err := k.goTo(raw, nil); reasonOf(err) != reasonURL {
			t.Errorf("%q: %q, %v, want %s", raw, k.host, err, reasonURL)
		}
	}
}
