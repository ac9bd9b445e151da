package service

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/internal/model/ranks/nccl"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
)

// Ranks say which of the trainers of one model this is, and where rank 0 listens. Their names are those of torchrun,
// where it has them.
type Ranks struct {
	Rank      int           `env:"RANK" envDefault:"0" desc:"this trainer's number among those of WORLD_SIZE; 0 alone reads the log and writes"`
	WorldSize int           `env:"WORLD_SIZE" envDefault:"1" desc:"trainers of one model, which share the batches of each step: 1, 2, 4 or another power of two, up to STEP_BATCHES; the weights are the same for all of these"`
	Master    string        `env:"MASTER_ADDR" envDefault:"127.0.0.1" desc:"WORLD_SIZE above 1: host name or address of rank 0, which listens there and nowhere else"`
	Port      int           `env:"MASTER_PORT" envDefault:"29500" desc:"WORLD_SIZE above 1: port of rank 0"`
	Own       int           `env:"RANK_PORT" envDefault:"0" desc:"WORLD_SIZE above 2: port of this rank, for the ranks above it; it listens where it reaches rank 0 from; 0: any that is free"`
	Token     string        `env:"RANK_TOKEN" secret:"true" desc:"a secret that all ranks share; may be empty where MASTER_ADDR is of this machine alone"`
	Silence   time.Duration `env:"RANK_TIMEOUT" envDefault:"1m" desc:"a rank of which nothing is heard for so long is lost; the others wait until it is back"`
	Exchange  string        `env:"RANK_EXCHANGE" envDefault:"tcp" desc:"WORLD_SIZE above 1: what carries gradients: tcp, encrypted; or nccl, among GPUs, not encrypted, with PyTorch 2.11 for CUDA; the bits are the same"`
	Wait      time.Duration `env:"RANK_JOIN_TIMEOUT" envDefault:"10m" desc:"how long ranks wait until all are there, at the start and when one was lost"`
}

// The transports of gradients between ranks.
const (
	overTCP  = "tcp"
	overNCCL = "nccl"
)

// several reports whether there is more than one rank.
func (r Ranks) several() bool { return r.WorldSize > 1 }

func (r Ranks) address() string { return net.JoinHostPort(r.Master, strconv.Itoa(r.Port)) }

// validate returns every invalid setting, joined. A step has a power of two of batches.
func (r Ranks) validate(stepBatches int) error {
	if r.WorldSize > 1 && stepBatches == 1 { // as in GPN-S, whose step is one mini-batch
		return fmt.Errorf("WORLD_SIZE is %d and STEP_BATCHES is 1: ranks share the mini-batches of a step. Set STEP_BATCHES=%[1]d for all stages: "+
			"RECIPE=gpn-s and gpn-s-tcl then divide mini-batch and clusters by it; where BATCH_SIZE and GNS_CLUSTERS are set, divide them yourself", r.WorldSize)
	}
	if r.WorldSize < 1 || r.WorldSize&(r.WorldSize-1) != 0 || stepBatches > 0 && r.WorldSize > stepBatches {
		return fmt.Errorf("WORLD_SIZE is %d, want 1, 2, 4 or another power of two, up to STEP_BATCHES=%d: ranks share the batches of a step", r.WorldSize, stepBatches)
	}
	var l invalid.List
	l.Refuse(r.Rank < 0 || r.Rank >= r.WorldSize, "RANK is %d of WORLD_SIZE %d, want 0 to %d", r.Rank, r.WorldSize, r.WorldSize-1)
	if !r.several() {
		return l.Err()
	}
	l.Refuse(r.Port < 1 || r.Port > 65535, "MASTER_PORT is %d, want 1 to 65535", r.Port)
	l.Refuse(r.Exchange != overTCP && r.Exchange != overNCCL, "RANK_EXCHANGE is %q, want %s or %s", r.Exchange, overTCP, overNCCL)
	l.Refuse(r.Own < 0 || r.Own > 65535, "RANK_PORT is %d, want 0 to 65535", r.Own)
	l.Refuse(r.Master == "", "MASTER_ADDR is empty, want the host of rank 0")
	if ip := net.ParseIP(r.Master); r.Token == "" && r.Master != "localhost" && (ip == nil || !ip.IsLoopback()) {
		l.Add(fmt.Errorf("RANK_TOKEN is empty and MASTER_ADDR is %q: want a secret that all ranks share, since others may reach that address", r.Master))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RANK_TIMEOUT", r.Silence}, {"RANK_JOIN_TIMEOUT", r.Wait}} {
		l.Refuse(d.value < time.Second, "%s is %s, want 1s or more", d.name, d.value)
	}
	return l.Err()
}

// group returns the options for joining the other ranks.
func (s Settings) group(tools device.Tools) ranks.Options {
	r := s.Ranks
	o := ranks.Options{
		Rank: r.Rank, World: r.WorldSize, Address: r.address(), Port: r.Own, Token: r.Token, Silence: r.Silence, Wait: r.Wait,
		Facts: s.facts(tools), Log: tools.Instruments.Log,
	}
	if r.Exchange == overNCCL {
		o.Transport = nccl.Transport{Device: tools.Settings().Name}
	}
	return o
}

// facts lists everything that the bits of a step depend on. The state comes from rank 0.
func (s Settings) facts(tools device.Tools) []ranks.Fact {
	d, log := tools.Settings(), tools.Log.Config()
	threads := d.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	kind, _, _ := strings.Cut(d.Name, ":")
	facts := []ranks.Fact{
		{Name: "version", Value: version.String() + " " + runtime.GOARCH},
		{Name: "NAMESPACE", Value: log.Namespace},
		{Name: "LANES", Value: strconv.Itoa(log.Lanes)},
		{Name: "SEED", Value: strconv.FormatUint(s.Run.Seed, 10)},
		{Name: "DEVICE", Value: kind},
		{Name: "RANK_EXCHANGE", Value: s.Ranks.Exchange},
		{Name: "TORCH_THREADS", Value: strconv.Itoa(threads)},
		{Name: "PRECISION", Value: d.Precision},
		{Name: "DETERMINISTIC", Value: strconv.FormatBool(d.Deterministic)},
	}
	for _, part := range []any{s.Core, s.Augment} {
		for _, a := range config.Redacted(part).Group() {
			facts = append(facts, ranks.Fact{Name: a.Key, Value: a.Value.String()})
		}
	}
	return facts
}

// traffic counts the bytes that this rank exchanges with the others, in all groups that it has joined.
type traffic struct {
	mu             sync.Mutex
	sent, received int64 // in groups that have ended
	now            func() (sent, received int64)
}

// of adds a group to the counts.
func (t *traffic) of(group func() (sent, received int64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		sent, received := t.now()
		t.sent, t.received = t.sent+sent, t.received+received
	}
	t.now = group
}

func (t *traffic) bytes() (sent, received int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		sent, received = t.now()
	}
	return t.sent + sent, t.received + received
}

// register shows the counts.
func (t *traffic) register(i *service.Instruments) error {
	const name = "pairstream_trainer_ranks_bytes_total"
	const help = "Bytes that this rank exchanges with the others, before they are encrypted."
	counter := func(way string, n func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"way": way}}, func() float64 { return float64(n()) })
	}
	return i.Register(
		counter("sent", func() int64 { sent, _ := t.bytes(); return sent }),
		counter("received", func() int64 { _, received := t.bytes(); return received }),
	)
}

// stopped is the reason of a trainer that was asked to end. Its state is sound.
type stopped struct{}

func (stopped) Error() string        { return "it was stopped" }
func (stopped) Is(target error) bool { return target == ranks.ErrLost }

// reason returns why a trainer ends, for the others.
func reason(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return stopped{}
	}
	return err
}

// When the ranks have met, all of them get the state of rank 0: weights, moments, momentum encoder, queue and step.
// Rank 0 offers it by step and digest. A rank with the same state keeps it, and any other takes it. So neither the
// identity of a lost rank nor a step that only some ranks made affects the result.

// offer identifies the state that rank 0 holds.
type offer struct {
	Step   int64
	Digest []byte
}

// answer tells whether a rank holds the offered state.
type answer struct{ Has bool }

// stateful is the part of a [trainer.Trainer] that the exchange of states needs.
type stateful interface {
	Write(ctx context.Context, w io.Writer) error
	Drop(ctx context.Context) error
	Steps() int64
}

// offerOf describes a state.
func offerOf(ctx context.Context, core stateful) (offer, error) {
	h := sha256.New()
	err := core.Write(ctx, h)
	return offer{core.Steps(), h.Sum(nil)}, err
}

// giveState gives all ranks the state of rank 0 after its last whole step. It returns the number of ranks that took it.
func giveState(ctx context.Context, group *ranks.Leader, core stateful) (taken int, err error) {
	if err := core.Drop(ctx); err != nil {
		return 0, err
	}
	own, err := offerOf(ctx, core)
	if err != nil {
		return 0, err
	}
	raw, err := json.Marshal(own)
	if err == nil {
		err = group.TellAll(raw)
	}
	if err != nil {
		return 0, err
	}
	to := broadcast{group: group}
	for rank := 1; rank < group.World(); rank++ {
		var a answer
		if raw, err = group.Hear(ctx, rank); err == nil {
			err = json.Unmarshal(raw, &a)
		}
		if err != nil {
			return 0, fmt.Errorf("hearing what rank %d holds: %w", rank, err)
		}
		if !a.Has {
			to.ranks = append(to.ranks, rank)
		}
	}
	if len(to.ranks) == 0 {
		return 0, nil
	}
	out := bufio.NewWriterSize(to, stateBytes)
	if err = core.Write(ctx, out); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = to.tell(nil)
	}
	return len(to.ranks), err
}

// takeState returns the state of rank 0; nil: this rank holds it already. core is this rank's state; nil: none.
func takeState(ctx context.Context, link *ranks.Member, core stateful) (state []byte, err error) {
	raw, err := link.Hear(ctx)
	if err != nil {
		return nil, err
	}
	var there offer
	if err := json.Unmarshal(raw, &there); err != nil {
		return nil, fmt.Errorf("reading which state rank 0 holds: %w", err)
	}
	var a answer
	if core != nil && core.Steps() == there.Step {
		if err := core.Drop(ctx); err != nil {
			return nil, err
		}
		own, err := offerOf(ctx, core)
		if err != nil {
			return nil, err
		}
		a.Has = bytes.Equal(own.Digest, there.Digest)
	}
	if raw, err = json.Marshal(a); err == nil {
		err = link.Tell(raw)
	}
	if err != nil || a.Has {
		return nil, err
	}
	if state, err = hearState(ctx, link); err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(state); !bytes.Equal(digest[:], there.Digest) {
		return nil, errors.New("the state that rank 0 has sent is not the one that it has offered: start this rank again")
	}
	return state, nil
}

// stateBytes is the size of the messages that carry the state. An empty message ends it.
const stateBytes = 4 << 20

// broadcast is a writer that sends to some ranks.
type broadcast struct {
	group *ranks.Leader
	ranks []int
}

// Write implements io.Writer.
func (b broadcast) Write(data []byte) (int, error) {
	for at := 0; at < len(data); at += stateBytes {
		if err := b.tell(data[at:min(at+stateBytes, len(data))]); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

func (b broadcast) tell(message []byte) error {
	for _, rank := range b.ranks {
		if err := b.group.Tell(rank, message); err != nil {
			return err
		}
	}
	return nil
}

// hearState returns the state that a broadcast has sent.
func hearState(ctx context.Context, m *ranks.Member) ([]byte, error) {
	var state []byte
	for {
		part, err := m.Hear(ctx)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			return state, nil
		}
		state = append(state, part...)
	}
}

var _ io.Writer = broadcast{}
