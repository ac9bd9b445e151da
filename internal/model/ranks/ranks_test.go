package ranks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func testOptions(rank, world int, address string) Options {
	return Options{
		Rank: rank, World: world, Address: address, Token: "secret", Facts: []Fact{{"SEED", "7"}, {"LR", "1e-4"}},
		Silence: time.Minute, Wait: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	return l
}

// gather joins ranks with each other, and ends them with the test. change may change the options of a rank.
func gather(t *testing.T, world int, change func(*Options)) (*Leader, []*Member) {
	t.Helper()
	listener := listen(t)
	members := make([]*Member, world)
	var joining sync.WaitGroup
	for rank := 1; rank < world; rank++ {
		joining.Go(func() {
			o := testOptions(rank, world, listener.Addr().String())
			change(&o)
			var err error
			if members[rank], err = Join(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
	o := testOptions(0, world, listener.Addr().String())
	change(&o)
	leader := must.Get(lead(t.Context(), listener, o))(t)
	joining.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		var closing sync.WaitGroup
		closing.Go(func() { leader.Close(nil) })
		for _, m := range members[1:] {
			closing.Go(func() { m.Close(nil) })
		}
		closing.Wait()
	})
	return leader, members
}

func unchanged(*Options) {}

// randomPart draws vectors, some of which are missing. Sums of such values depend on the order of additions.
func randomPart(r *rand.Rand, rank int) Part {
	p := Part{Note: fmt.Append(nil, "note ", rank)}
	for i, n := range []int{1, 0, 5, 3*chunkFloats + 3, 17, 4} {
		if i == 4 || i == 2 && rank%2 == 0 || i == 5 && rank > 0 {
			p.Vectors = append(p.Vectors, nil) // of nobody, of some, of all but the leader
			continue
		}
		v := make([]float32, n)
		for k := range v {
			v[k] = math.Float32frombits(r.Uint32() &^ (1 << 30)) // of any size below 2
		}
		if n > 0 {
			v[n-1] = float32(math.Copysign(0, -1)) // on all ranks that have one: adding a zero would change it
		}
		p.Vectors = append(p.Vectors, v)
	}
	return p
}

func clone(p Part) Part {
	out := Part{Note: slices.Clone(p.Note)}
	for _, v := range p.Vectors {
		out.Vectors = append(out.Vectors, slices.Clone(v))
	}
	return out
}

// bits returns what a part holds, with -0 apart from 0.
func bits(p Part) (all []any) {
	all = append(all, string(p.Note))
	for _, v := range p.Vectors {
		all = append(all, v != nil, bytesOf(v))
	}
	return all
}

// All ranks get the sum along the tree, bit by bit, and a note made of all notes.
func TestSumIsThatOfTheTree(t *testing.T) {
	for _, world := range []int{2, 4, 3, 8} {
		leader, members := gather(t, world, unchanged)
		r := rand.New(rand.NewPCG(uint64(world), 0))
		for range 2 {
			var parts []Part
			want := Part{Note: []byte("all:")}
			for rank := range world {
				parts = append(parts, randomPart(r, rank))
				want.Note = append(want.Note, parts[rank].Note...)
			}
			for i := range parts[0].Vectors {
				var values [][]float32
				for _, p := range parts {
					values = append(values, slices.Clone(p.Vectors[i]))
				}
				want.Vectors = append(want.Vectors, treeSum(values))
			}
			got := make([]Part, world)
			var summing sync.WaitGroup
			for rank := 1; rank < world; rank++ {
				summing.Go(func() {
					var err error
					if got[rank], err = members[rank].Sum(t.Context(), parts[rank]); err != nil {
						t.Error(err)
					}
				})
			}
			var err error
			got[0], err = leader.Sum(t.Context(), clone(parts[0]), func(notes [][]byte) ([]byte, error) {
				return slices.Concat(append([][]byte{[]byte("all:")}, notes...)...), nil
			})
			summing.Wait()
			must.Do(t, err)
			for rank := range got {
				if !reflect.DeepEqual(bits(got[rank]), bits(want)) {
					t.Errorf("%d ranks: rank %d has another sum", world, rank)
				}
			}
		}
	}
}

// The tree passes over what is missing: -0 stays -0, which a zero in its sibling's place would change.
func TestTreePassesOverNil(t *testing.T) {
	minusZero := float32(math.Copysign(0, -1))
	for name, c := range map[string]struct {
		values [][]float32
		want   []float32
	}{
		"none":        {[][]float32{nil, nil, nil, nil}, nil},
		"right alone": {[][]float32{nil, {minusZero}, nil, nil}, []float32{minusZero}},
		"far right":   {[][]float32{nil, nil, nil, {minusZero}}, []float32{minusZero}},
		"pairs first": {[][]float32{{1e8}, {1}, {-1e8}, {1}}, []float32{0}}, // from left to right it would be 1
		"three":       {[][]float32{{1}, {2}, {4}}, []float32{7}},
	} {
		got := treeSum(c.values)
		if len(got) != len(c.want) || len(got) == 1 && math.Float32bits(got[0]) != math.Float32bits(c.want[0]) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestMessagesArriveInOrder(t *testing.T) {
	leader, members := gather(t, 3, unchanged)
	const n = 200
	var telling sync.WaitGroup
	for rank := 1; rank < 3; rank++ {
		telling.Go(func() {
			for i := range n {
				m, err := members[rank].Hear(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				must.Check(t, members[rank].links[0].send(kindBeat, nil))
				must.Check(t, members[rank].Tell(append(m, fmt.Sprint(" heard ", i)...)))
			}
		})
	}
	for i := range n {
		must.Do(t, leader.TellAll(fmt.Append(nil, "message ", i)))
	}
	for i := range n {
		for rank := 1; rank < 3; rank++ {
			got, err := leader.Hear(t.Context(), rank)
			if want := fmt.Sprintf("message %d heard %d", i, i); err != nil || string(got) != want {
				t.Fatalf("rank %d answers %q, %v; want %q", rank, got, err, want)
			}
		}
	}
	telling.Wait()
}

// A rank that differs is refused and told why, with both values. The leader goes on waiting for one that does not.
func TestOthersAreRefused(t *testing.T) {
	listener := listen(t)
	address := listener.Addr().String()
	waiting := make(chan error, 1)
	go func() {
		l, err := lead(t.Context(), listener, testOptions(0, 2, address))
		if err == nil {
			l.Close(nil)
		}
		waiting <- err
	}()
	for want, change := range map[string]func(*Options){
		"LR is 2e-4 on rank 1 and 1e-4 on rank 0: want one value on all ranks":                        func(o *Options) { o.Facts[1].Value = "2e-4" },
		`SEED is "" on rank 1 and 7 on rank 0; LR is unknown on rank 1 and 1e-4 on rank 0`:            func(o *Options) { o.Facts = []Fact{{"SEED", ""}} },
		"NEW is 1 on rank 1 and unknown on rank 0: want one":                                          func(o *Options) { o.Facts = append(o.Facts, Fact{"NEW", "1"}) },
		"RANK_TOKEN differs: want one secret on all ranks":                                            func(o *Options) { o.Token = "other" },
		"WORLD_SIZE is 4 on rank 1 and 2 on rank 0: want one value on all ranks":                      func(o *Options) { o.World = 4 },
		"rank 0 refuses this rank: RANK is 0, want 1 to 1 beside rank 0":                              func(o *Options) { o.Rank = 0 },
		"MASTER_ADDR and MASTER_PORT make \"nowhere\": address nowhere: missing port in address":      func(o *Options) { o.Address = "nowhere" },
		"RANK is 2, want 0 to 1 (WORLD_SIZE - 1)\nRANK_TIMEOUT is 0s, want more than 0\nRANK_JOIN_TI": func(o *Options) { o.Rank, o.Silence, o.Wait = 2, 0, 0 },
		"WORLD_SIZE is 1, want 2 or more":                                                             func(o *Options) { o.World = 1 },
	} {
		o := testOptions(1, 2, address)
		change(&o)
		if _, err := Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	for _, said := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x00\x00\x00\x00\x09", "\xff\xff\xff\xff\x02", "\x02\x00\x00\x00\x02{}", ""} {
		conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", address))(t)
		if _, err := conn.Write([]byte(said)); err != nil {
			t.Error(err)
		}
		must.Check(t, conn.Close())
	}
	m := must.Get(Join(t.Context(), testOptions(1, 2, address)))(t)
	if _, err := m.Hear(t.Context()); !errors.Is(err, ErrDone) {
		t.Errorf("after the leader's end: %v", err)
	}
	m.Close(nil)
	must.Check(t, <-waiting)
}

// A rank of another release, and something in the leader's place that does not know the token, are named.
func TestPeersOfAnotherKind(t *testing.T) {
	ours, theirs := net.Pipe()
	refused := make(chan error, 1)
	go func() {
		o := testOptions(0, 2, "")
		_, err := greet(ours, nil, o, o.admit)
		refused <- err
	}()
	var c challenge
	must.Do(t, readJSON(theirs, kindChallenge, &c))
	must.Do(t, writeJSON(theirs, kindHello, hello{Version: 9, Rank: 1}))
	var v verdict
	if err := readJSON(theirs, kindVerdict, &v); err != nil || !strings.Contains(v.Refused, "version 9 of the exchange between ranks and rank 0 speaks 3") {
		t.Errorf("verdict %+v, %v", v, err)
	}
	if err := <-refused; err == nil || err.Error() != v.Refused {
		t.Errorf("the leader says %v", err)
	}

	ours, theirs = net.Pipe()
	go func() {
		var h hello
		if writeJSON(theirs, kindChallenge, challenge{version, newNonce()}) == nil && readJSON(theirs, kindHello, &h) == nil {
			_ = writeJSON(theirs, kindVerdict, verdict{Proof: prove("guess", "accepts", h.Nonce)})
		}
	}()
	if err := introduce(ours, nil, testOptions(1, 2, ""), hello{}); !isRefusal(err) || !strings.Contains(err.Error(), "does not know RANK_TOKEN") {
		t.Errorf("%v", err)
	}
}

func TestRanksThatNeverComeAreNamed(t *testing.T) {
	listener := listen(t)
	address := listener.Addr().String()
	joined := make(chan error, 1)
	go func() {
		m, err := Join(t.Context(), testOptions(2, 4, address))
		if err == nil {
			_, err = m.Hear(t.Context())
			m.Close(err)
		}
		joined <- err
	}()
	o := testOptions(0, 4, address)
	o.Wait = 2 * time.Second
	_, err := lead(t.Context(), listener, o)
	if err == nil || !strings.Contains(err.Error(), "rank 1 and rank 3 did not come to "+address+" within 2s (RANK_JOIN_TIMEOUT)") {
		t.Errorf("%v", err)
	}
	if err := <-joined; err == nil || !strings.Contains(err.Error(), "rank 0 has ended: rank 1 and rank 3 did not come") {
		t.Errorf("the rank that came says %v", err)
	}

	o = testOptions(0, 2, "192.0.2.1:1") // an address of no machine
	if _, err := Lead(t.Context(), o); err == nil || !strings.Contains(err.Error(), "make 192.0.2.1:1, where rank 0 cannot listen") {
		t.Errorf("%v", err)
	}
	o = testOptions(1, 2, address) // where nobody listens any more
	o.Wait = time.Millisecond
	if _, err := Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), "rank 0 was not to be reached at "+address) {
		t.Errorf("%v", err)
	}
	o.Wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Join(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// lines are what a logger has written.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func (l lines) await(t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("nobody says %q", text)
		}
	}
}

// A process that comes again while others are on their way takes its place again.
func TestARankComesAgain(t *testing.T) {
	listener := listen(t)
	address := listener.Addr().String()
	join := func(rank int) *applicant {
		a := must.Get(apply(t.Context(), testOptions(rank, 3, address)))(t)
		return a
	}
	var leader *Leader
	var leading sync.WaitGroup
	said := make(lines, 16)
	leading.Go(func() {
		o := testOptions(0, 3, address)
		o.Log = slog.New(slog.NewTextHandler(said, nil))
		var err error
		if leader, err = lead(t.Context(), listener, o); err != nil {
			t.Error(err)
		}
	})
	crashed := join(1)
	said.await(t, "a rank has come")
	must.Check(t, errors.Join(crashed.leader.conn.Close(), crashed.close()))
	said.await(t, "a rank has left before all were there")
	older := join(1)
	said.await(t, "a rank has come")
	newer := join(1)
	said.await(t, "a rank has come")
	if _, err := older.settle(t.Context()); err == nil || !strings.Contains(err.Error(), "another process has come as rank 1") || errors.Is(err, ErrLost) {
		t.Errorf("the older process says %v", err)
	}
	members := make(chan *Member, 2)
	for _, a := range []*applicant{newer, join(2)} {
		go func() {
			m, err := a.settle(t.Context())
			must.Check(t, err)
			members <- m
		}()
	}
	leading.Wait()
	for range 2 {
		m := <-members
		if t.Failed() {
			return
		}
		must.Check(t, leader.TellAll([]byte("begin")))
		if got, err := m.Hear(t.Context()); err != nil || string(got) != "begin" {
			t.Errorf("%q, %v", got, err)
		}
	}
	leader.Close(nil)
}
