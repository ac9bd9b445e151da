package ranks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// come connects to a rank, as a process that may say anything, and returns what that rank answers.
func come(t *testing.T, address string, o Options, h hello) (secured, error) {
	t.Helper()
	conn := dial(t, address)
	return conn, introduce(conn, conn.binding, o, h)
}

// Ranks above 0 listen as well. A stranger is refused. So is a rank of another training, of another number, or one
// that is there. Each is told why, and those that are wanted come in afterwards.
func TestOthersAreRefusedByEveryRank(t *testing.T) {
	keys := must.Get(newTLS())(t)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	a := &applicant{options: testOptions(1, 4, "127.0.0.1:1"), tls: keys, listener: listen(t), leader: newLink(0, ours, time.Minute)}
	address := a.listener.Addr().String()
	links := []*link{a.leader, nil, nil, nil}
	session := newNonce()
	met := make(chan error, 1)
	go func() { met <- a.meet(t.Context(), roster{Session: session, Addresses: make([]string, 4)}, links) }()
	for want, change := range map[string]func(*Options, *hello){
		"RANK_TOKEN differs: want one secret on all ranks":               func(o *Options, _ *hello) { o.Token = "guess" },
		"WORLD_SIZE is 8 on rank 3 and 4 on rank 1":                      func(o *Options, _ *hello) { o.World = 8 },
		"rank 1 wants to join rank 1 here, want ranks 2 to 3 to join":    func(o *Options, _ *hello) { o.Rank = 1 },
		"rank 4 wants to join rank 1 here, want ranks 2 to 3 to join":    func(o *Options, _ *hello) { o.Rank = 4 },
		"rank 3 wants to join rank 2 here, want ranks 2 to 3 to join":    func(_ *Options, h *hello) { h.To = 2 },
		"rank 3 was not called by rank 0 for this training: start it ag": func(_ *Options, h *hello) { h.Session = newNonce() },
	} {
		o, h := testOptions(3, 4, address), hello{To: 1, Session: session}
		change(&o, &h)
		if conn, err := come(t, address, o, h); !isRefusal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		} else if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	var both []*link
	for range 2 {
		conn := must.Get(come(t, address, testOptions(2, 4, address), hello{To: 1, Session: session}))(t)
		both = append(both, newLink(1, conn, time.Minute))
	}
	late := both[1]
	select {
	case <-both[0].lost: // it was taken in later
		late = both[0]
	case <-both[1].lost:
	}
	if !strings.Contains(late.err.Error(), "another process has come as rank 2") {
		t.Errorf("the second process of rank 2 hears %v", late.err)
	}
	if _, err := come(t, address, testOptions(3, 4, address), hello{To: 1, Session: session}); err != nil {
		t.Error(err)
	}
	if err := <-met; err != nil || links[2] == nil || links[3] == nil {
		t.Errorf("%v, %v", links, err)
	}
}

// Somebody between two ranks who passes on all that they say does not get their proofs: these are of other connections.
func TestNobodyStandsBetweenRanks(t *testing.T) {
	keys := must.Get(newTLS())(t)
	listener, between := listen(t), listen(t)
	o := testOptions(0, 2, "")
	entered := make(chan *link, 1)
	rank := acceptor{listener, keys, o, o.admit, func(_ context.Context, l *link) { entered <- l }}
	ctx := t.Context()
	go rank.serve(ctx)
	go func() {
		conn, err := between.Accept()
		if err != nil {
			return
		}
		victim, err := secure(ctx, conn, keys, true)
		if err != nil {
			return
		}
		server := dial(t, listener.Addr().String())
		go pass(victim, server)
		pass(server, victim)
	}()
	if _, err := come(t, between.Addr().String(), testOptions(1, 2, ""), hello{Facts: o.Facts}); err == nil || !strings.Contains(err.Error(), "RANK_TOKEN differs") {
		t.Errorf("%v", err)
	}
	select {
	case <-entered:
		t.Error("the one between got in")
	default:
	}
}

// pass passes on what a connection says, until either has ended.
func pass(to, from net.Conn) {
	defer to.Close()
	for {
		k, payload, err := readFrame(from, maxFrame)
		if err != nil || writeFrame(to, k, payload) != nil {
			return
		}
	}
}

// A stranger who says nothing is sent away after a while.
func TestASilentStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		refused := make(chan error, 1)
		go func() {
			o := testOptions(0, 2, "")
			_, err := greet(ours, nil, o, o.admit)
			refused <- err
		}()
		var c challenge
		must.Do(t, readJSON(theirs, kindChallenge, &c))
		if err := <-refused; !errors.Is(err, errStranger) || !strings.Contains(err.Error(), "timeout") {
			t.Errorf("%v", err)
		}
	})
}

// Strangers that keep a listener waiting, before their hello or after it, keep no rank out.
func TestStrangersKeepNoRankOut(t *testing.T) {
	keys := must.Get(newTLS())(t)
	o := testOptions(0, 2, "")
	for name, test := range map[string]struct {
		count int
		say   func(net.Conn) error
	}{
		"silent":            {maxSilent + 10, func(net.Conn) error { return nil }},
		"half a hello":      {maxSilent + 10, func(c net.Conn) error { _, err := c.Write([]byte{22, 3, 1}); return err }},
		"silent behind TLS": {3 * maxStrangers, func(c net.Conn) error { _, err := secure(t.Context(), c, keys, false); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			listener := listen(t)
			entered := make(chan *link, 1)
			go acceptor{listener, keys, o, o.admit, func(_ context.Context, l *link) { entered <- l }}.serve(t.Context())
			for range test.count {
				conn := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
				defer conn.Close()
				must.Do(t, test.say(conn))
			}
			must.Get(come(t, listener.Addr().String(), testOptions(1, 2, ""), hello{Facts: o.Facts}))(t)
			if l := <-entered; l.rank != 1 {
				t.Errorf("rank %d came in", l.rank)
			}
		})
	}
}

// When there are too many strangers, the oldest goes, and one that has left makes room for another.
func TestTheOldestStrangerGoes(t *testing.T) {
	c := &pending{most: 2}
	var leave []func()
	var others []net.Conn
	for range 5 {
		ours, theirs := net.Pipe()
		defer ours.Close()
		others = append(others, theirs)
		leave = append(leave, c.enter(ours))
		if len(leave) == 3 {
			leave[0]() // it had to go already
			leave[1]()
		}
	}
	for i, gone := range []bool{true, false, true, false, false} {
		_ = others[i].SetReadDeadline(time.Now().Add(time.Millisecond)) // an error where the stranger is gone
		if _, err := others[i].Read(make([]byte, 1)); errors.Is(err, io.EOF) != gone {
			t.Errorf("stranger %d: %v, want it to be gone: %v", i, err, gone)
		}
	}
}

// What a rank says beyond what was asked for ends the training, and takes no memory.
func TestFramesThatNobodyAskedFor(t *testing.T) {
	for want, say := range map[string]func(*link) error{
		"more frames of kind 10 than 8, for which nobody has asked": func(l *link) (err error) {
			for range ahead + 1 {
				err = errors.Join(err, l.send(kindPiece, nil))
			}
			return err
		},
		"more frames of kind 8 than 1, for which nobody has asked": func(l *link) error {
			return errors.Join(l.send(kindShape, []byte("{}")), l.send(kindShape, []byte("{}")))
		},
		"a frame of kind 11 with 262145 bytes, want at most 262144": func(l *link) error { return l.send(kindSum, make([]byte, maxChunk+1)) },
		"a frame of kind 2 after the handshake":                     func(l *link) error { return l.send(kindHello, nil) },
	} {
		leader, members := gather(t, 2, unchanged)
		if err := say(members[1].links[0]); err != nil && !errors.Is(err, ErrLost) { // it may be cut off in the midst of a frame
			t.Error(err)
		}
		if err := leader.Watch(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
		leader.Close(leader.err)
	}
}

// A chunk of another size than planned ends the sum.
func TestAChunkOfAnotherSize(t *testing.T) {
	leader, members := gather(t, 2, unchanged)
	go func() {
		raw, _ := json.Marshal(Part{Vectors: [][]float32{{1, 2, 3, 4}}}.shape())
		_ = members[1].links[0].send(kindShape, raw)
		_ = members[1].links[0].send(kindPiece, make([]byte, 12))
	}()
	_, err := leader.Sum(t.Context(), Part{Vectors: [][]float32{{1, 2, 3, 4}}}, func([][]byte) ([]byte, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "rank 1: a chunk has 12 bytes, want 8") {
		t.Errorf("%v", err)
	}
	leader.Close(err)
}

// Plans that do not fit what a rank has are refused.
func TestPlansThatDoNotFit(t *testing.T) {
	own := shape{Lengths: []int{2, -1}}
	good := Plan{World: 2, Lengths: []int{2, 3}, Has: []byte{0b0111}}
	must.Check(t, good.check(2, 1, own))
	for want, p := range map[string]Plan{
		"sums up 1 vectors of 2 ranks, rank 1 of 2 has 2":     {World: 2, Lengths: []int{2}, Has: []byte{3}},
		"sums up 2 vectors of 3 ranks, rank 1 of 2 has 2":     {World: 3, Lengths: []int{2, 3}, Has: []byte{63}},
		"in 0 bytes who has which vectors, want 1":            {World: 2, Lengths: []int{2, 3}},
		"sums up 4 values of vector 0, rank 1 has 2":          {World: 2, Lengths: []int{4, 3}, Has: []byte{0b0111}},
		"sums up 3 values of vector 1, rank 1 has -1":         {World: 2, Lengths: []int{2, 3}, Has: []byte{0b1111}},
		"vector 1 of a sum has 68719476736 values, want at m": {World: 2, Lengths: []int{2, maxFloats}, Has: []byte{0b0111}},
		"vector 0 of a sum has -2 values, want at most":       {World: 2, Lengths: []int{-2, 3}, Has: []byte{0b0111}},
	} {
		if err := p.check(2, 1, own); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := planOf([]shape{{Lengths: make([]int, maxVectors+1)}}); err == nil || !strings.Contains(err.Error(), "1048577 vectors, want at most") {
		t.Errorf("%v", err)
	}
}

// spoken is a connection whose other side has said all it says.
type spoken struct {
	net.Conn
	said *bytes.Reader
}

func (s spoken) Read(b []byte) (int, error)     { return s.said.Read(b) }
func (spoken) Write(b []byte) (int, error)      { return len(b), nil }
func (spoken) SetDeadline(time.Time) error      { return nil }
func (spoken) SetReadDeadline(time.Time) error  { return nil }
func (spoken) SetWriteDeadline(time.Time) error { return nil }
func (spoken) Close() error                     { return nil }
func (spoken) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// FuzzHandshake says anything in the place of either side. Nobody gets in who does not know the token.
func FuzzHandshake(f *testing.F) {
	for _, v := range []any{hello{Version: version, Rank: 1, World: 2, Nonce: newNonce(), Facts: testOptions(0, 2, "").Facts}, challenge{version, newNonce()}, verdict{}} {
		for k := kindChallenge; k <= kindVerdict; k++ {
			raw := must.Get(json.Marshal(v))(f)
			var b bytes.Buffer
			must.Do(f, errors.Join(writeFrame(&b, k, raw), writeFrame(&b, kindVerdict, raw)))
			f.Add(b.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o := testOptions(0, 2, "")
		if h, err := greet(spoken{said: bytes.NewReader(raw)}, nil, o, o.admit); err == nil {
			t.Errorf("%+v is let in", h)
		}
		o.Rank = 1
		if introduce(spoken{said: bytes.NewReader(raw)}, nil, o, hello{}) == nil {
			t.Error("rank 0 is believed")
		}
	})
}

// FuzzPlan reads any plan. One that fits has slices that cover its vectors.
func FuzzPlan(f *testing.F) {
	for _, p := range []Plan{{World: 2, Lengths: []int{3, -1, 70000}, Has: []byte{0b10011}}, {World: 1 << 40, Lengths: []int{1}}, {World: -1}, {Has: []byte{1}}} {
		raw := must.Get(json.Marshal(outline{Plan: p}))(f)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o outline
		if json.Unmarshal(raw, &o) != nil {
			return
		}
		own := shape{Lengths: make([]int, len(o.Plan.Lengths))}
		for i := range own.Lengths {
			own.Lengths[i] = -1
		}
		if o.Plan.check(2, 1, own) == nil && o.Plan.Total() < 1<<20 {
			checkSlices(t, o.Plan)
		}
	})
}

// FuzzLink sends a rank anything after the handshake. What it holds has a bound.
func FuzzLink(f *testing.F) {
	for k := kind(0); k <= kinds; k++ {
		f.Add([]byte{2, 0, 0, 0, byte(k), '{', '}', 0, 0, 0, 0, byte(k)})
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := newLink(1, spoken{said: bytes.NewReader(raw)}, time.Minute)
		<-l.reading
		if l.err == nil || len(l.pieces)+len(l.sums) > 2*ahead {
			t.Errorf("%v, with %d pieces and %d sums", l.err, len(l.pieces), len(l.sums))
		}
		l.end(goodbye{})
	})
}
