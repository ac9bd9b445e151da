//go:build cgo

package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// quiet is how long nothing happens in a namespace before every lane has to have said why. A machine with more to do
// than it can takes longer: only after silence is something wrong.
const quiet, silence = 6 * time.Second, time.Minute

// finish ends the crawl of a namespace, lets everything be trained on, and checks the books. Where a process ends or a
// lane is parked, finish does what the message says.
func (w *world) finish(s *space) {
	for _, stage := range stageNames {
		if s != w.here || len(w.members[stage]) != 1 || w.members[stage][0].ended() {
			w.stop(stage, false)
		}
	}
	w.turnTo(s)
	if out, err := w.command("seal", "--final"); err != nil && !s.final {
		if s.doomed == "" {
			w.fatalf("pairstream seal --final: %v\n%s", err, out)
		}
		w.sum.givenUp++
		return
	}
	s.final = true
	for _, stage := range stageNames {
		if len(w.members[stage]) == 0 {
			w.start(stage)
		}
	}
	still, done := stillness{moved: time.Now()}, false
	for {
		through, givenUp := w.attend(s)
		if givenUp {
			w.sum.givenUp++
			break
		}
		if done = done || through; done { // what lies behind a final seal may still be on its way to the dead letters
			problems, sum := w.balance(s)
			if len(problems) == 0 {
				w.endRanks()
				w.uploaded(s)
				w.count(sum)
				break
			}
		}
		if took := w.still(s, &still); took > quiet {
			if w.saysWhatIsLost(s) {
				w.sum.givenUp++
				break
			}
			if took > silence {
				w.silent(s, &still, done)
			}
			time.Sleep(patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, stage := range stageNames {
		w.stop(stage, false)
	}
	w.eraseCopies(s)
}

// saysWhatIsLost reports whether a lane waits for what nobody will make, and says so, because an operator has made a
// topic anew or has given up what is missing. That is a part of a group, or the final seal. Nobody waits for features
// of a batch that was skipped.
func (w *world) saysWhatIsLost(s *space) bool {
	w.read(s)
	log := w.connect(s)
	defer log.Close()
	skips, err := log.Skips(w.t.Context())
	w.check(err)
	states := w.states()
	if s.doomed != "" && (strings.Contains(states, "parked: ") || strings.Contains(states, "waits for features of epoch")) {
		return true
	}
	for _, sk := range skips {
		part := sk.Topic == schemas.Embeddings || sk.Topic == schemas.Neighbors || sk.Topic == schemas.Groups
		if (sk.To.Seq > sk.From.Seq && part || w.losesSeal(s, skips, sk)) && w.waits(sk.Lane) {
			return true
		}
	}
	return s.doomed != "" && (strings.Contains(states, "waits for chunk") || strings.Contains(states, "waits for the embedding"))
}

// waits reports whether a lane waits for something else than features. Those are made, or given up.
func (w *world) waits(lane int) bool {
	said := fmt.Sprintf("lane %d waits for ", lane)
	for _, stage := range stageNames {
		for _, m := range w.members[stage] {
			if slices.ContainsFunc(m.counters.States(), func(state string) bool {
				return strings.HasPrefix(state, said) && !strings.HasPrefix(state, said+"features of epoch")
			}) {
				return true
			}
		}
	}
	return false
}

// losesSeal reports whether a seal is among what an operator has given up, or may be: nobody can read a record of a
// newer version, or one that is gone. Without its final seal a lane does not end.
func (w *world) losesSeal(s *space, skips []stream.Skip, sk stream.Skip) bool {
	if sk.Topic == schemas.Pairs { // an operator goes on behind a topic's first records, and the seal is among them
		b := &books{w: w, s: s, lane: sk.Lane, skips: skips}
		return slices.ContainsFunc(b.sequence(schemas.Pairs), func(e entryOf) bool {
			_, seal := e.rec.(*schemas.Seal)
			return seal && e.skipped
		})
	}
	if sk.To.Seq <= sk.From.Seq || sk.Topic == schemas.Neighbors || sk.Topic == schemas.Features {
		return false
	}
	pairs := 0
	for _, e := range s.raw[laneOf{sk.Topic, sk.Lane}] {
		if _, seal := e.rec.(*schemas.Seal); sk.From.Seq <= e.seq && e.seq < sk.To.Seq && e.rec != nil && !seal {
			pairs++
		}
	}
	return int64(pairs) < sk.To.Seq-sk.From.Seq
}

// refusesToRepeat finds what a stage says that has used a record before an operator skipped it.
var refusesToRepeat = regexp.MustCompile(`is another record than the log holds, since .* skipped|nobody knows whether what is made now is the same|a batch was skipped after it had been trained on`)

// silent fails: nothing happens any more in a namespace, and its books do not balance. It returns when something has
// happened while it read the books, as on a cluster that did not answer before.
func (w *world) silent(s *space, st *stillness, done bool) {
	problems, _ := w.balance(s)
	if w.progress() != st.progress {
		return
	}
	what := "nothing happens, and nobody says why"
	if done {
		what = "everything has ended, and the books do not balance"
	}
	w.fatalf("namespace %s: %s\n%s\n%s", s.name, what, w.states(), strings.Join(problems, "\n"))
}

func (w *world) count(sum tally) {
	w.sum.records, w.sum.pairs = w.sum.records+sum.records, w.sum.pairs+sum.pairs
	w.sum.trained, w.sum.aside = w.sum.trained+sum.trained, w.sum.aside+sum.aside
}

// stillness is what is known of a namespace in which nothing may happen any more.
type stillness struct {
	progress int64
	moved    time.Time // when a record was last processed, or a process started
	settled  time.Time // since when nothing of that happens although every stage has lanes
}

// still returns how long nothing has happened although every stage has lanes. It fails when stages without lanes keep
// everybody waiting, and names them.
func (w *world) still(s *space, st *stillness) time.Duration {
	now := time.Now()
	if p := w.progress(); p != st.progress {
		st.progress, st.moved, st.settled = p, now, now
	}
	if absent := w.absent(); len(absent) > 0 { // a process that loads its model is not at rest
		st.settled = now
		if now.Sub(st.moved) > silence {
			var words strings.Builder
			for _, m := range absent {
				fmt.Fprintf(&words, "\n%s: %s; its last words: %s", m.name(), m.state(), m.log.lastLine())
			}
			w.fatalf("namespace %s: for %s nothing happens, and these have no lanes:%s", s.name, silence, words.String())
		}
	}
	return now.Sub(st.settled)
}

// progress adds up what all processes have done, and how many there were.
func (w *world) progress() int64 {
	n := int64(len(w.past))
	for _, m := range w.past {
		n += m.counters.In.Load() + m.counters.Out.Load() + m.counters.DeadLetters.Load()
	}
	return n
}

// absent returns the processes of the stages that have no lanes.
func (w *world) absent() (absent []*member) {
	for _, stage := range stageNames {
		members := w.members[stage]
		through := stage == "trainer" && members[0].ended()
		if !through && !slices.ContainsFunc(members, func(m *member) bool { return m.counters.Lanes.Load() > 0 }) {
			absent = append(absent, members...)
		}
	}
	return absent
}

func (w *world) states() string {
	var b strings.Builder
	for _, stage := range stageNames {
		for _, m := range w.members[stage] {
			fmt.Fprintf(&b, "%s: %s\n", stage, m.state())
		}
	}
	return b.String()
}

// attend does what processes ask for. It reports whether the trainer is through, and whether the namespace has to be
// given up for a reason that was said.
func (w *world) attend(s *space) (done, givenUp bool) {
	for _, stage := range stageNames {
		for _, m := range slices.Clone(w.members[stage]) {
			switch {
			case m.ended() && m.err == nil && stage == "trainer":
				done = true
			case m.ended():
				if !w.remedy(s, m) {
					return false, true
				}
			default:
				if uploadsFail(m.log.String()) {
					w.healUploads()
				}
				for _, state := range m.counters.States() {
					if w.followNobody(s, m, state) {
						break // it was started again
					}
					if !w.unpark(s, m, state) {
						return false, true
					}
				}
			}
		}
	}
	return done, false
}

// giveUp is for a namespace that an operator has damaged beyond repair. Any other must not come to this.
func (w *world) giveUp(s *space, m *member, why string) bool {
	if s.doomed == "" {
		w.fatalf("namespace %s: there is no way out: the %s says: %s", s.name, m.stage, why)
	}
	return false
}

// drawnBy finds the seed by which Con-D's images were drawn.
var drawnBy = regexp.MustCompile(`Con-D saw images of "seed (\d+),`)

// remedy does what the error of a process asks for, and starts it again.
func (w *world) remedy(s *space, m *member) bool {
	if m.err == nil {
		w.fatalf("the %s has ended without a reason", m.stage)
	}
	text := m.err.Error()
	s.tries[text]++
	drawn := drawnBy.FindStringSubmatch(text)
	switch {
	case refusesToRepeat.MatchString(text):
		return false
	case s.tries[text] > 20:
		return w.giveUp(s, m, text)
	case strings.Contains(text, "has no checkpoint, and retention has removed all features") && m.stage == "trainer":
		w.doomByLosses(s, laneIn(text))
		return w.giveUp(s, m, text)
	case uploadsFail(text) && m.stage == "trainer":
		w.uploadRemedy(text)
	case lostRank(text) && m.stage == "trainer": // all ranks begin again
	case noBroker(m.err): // another try
	case drawn != nil && m.stage == "trainer":
		w.env["SEED"] = drawn[1]
	case strings.Contains(text, "records are missing") && m.stage == "trainer": // its lane is damaged
		out, err := w.command("lanes", "skip", "--stage", "trainer", "--lane", laneIn(text), "--reason", "the trainer stops here")
		if err != nil {
			return w.giveUp(s, m, text+"; skipping: "+err.Error()+out)
		}
	default:
		return w.giveUp(s, m, text)
	}
	w.stop(m.stage, false)
	w.start(m.stage)
	return true
}

// doomByLosses gives the namespace up when its checkpoints and all features of a lane are lost, as the trainer says.
func (w *world) doomByLosses(s *space, lane string) {
	files, err := filepath.Glob(filepath.Join(w.env["CHECKPOINT_DIR"], "*.safetensors"))
	w.check(err)
	number, err := strconv.Atoi(lane)
	w.check(err)
	if len(files) == 0 && s.cut[laneOf{schemas.Features, number}] > 0 && s.doomed == "" {
		s.doomed = "checkpoints and all features of lane " + lane + " are lost"
	}
}

var laneText = regexp.MustCompile(`lane (\d+)`)

func laneIn(text string) string {
	if found := laneText.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return "0"
}

// faulty finds the record that a parked lane names.
var faulty = regexp.MustCompile(`parked: .*?([a-z]+), lane (\d+), offset (\d+)`)

// unpark lets a parked lane go on behind what is wrong, as the message says.
func (w *world) unpark(s *space, m *member, state string) bool {
	if !strings.Contains(state, "parked: ") {
		return true
	}
	if refusesToRepeat.MatchString(state) {
		return false
	}
	s.tries[m.stage+state]++
	if n := s.tries[m.stage+state]; n%50 != 1 { // it takes a moment until the lane is tried again
		if n > 2000 {
			return w.giveUp(s, m, state)
		}
		return true
	}
	args := []string{"lanes", "skip", "--stage", m.stage, "--lane", laneIn(state), "--reason", "to go on"}
	out, err := w.command(args...)
	if err != nil && strings.Contains(err.Error(), "nothing is wrong") && (strings.Contains(state, "newer version") || strings.Contains(state, "--record")) {
		if place := faulty.FindStringSubmatch(state); place != nil {
			out, err = w.command(append(args, "--topic", place[1], "--record", place[3])...)
		}
	}
	if err != nil && !strings.Contains(err.Error(), "nothing is wrong") {
		return w.giveUp(s, m, state+"; skipping: "+err.Error()+out)
	}
	if err != nil && s.tries[m.stage+state] > 1000 {
		return w.giveUp(s, m, state+"; skipping: "+err.Error()+out)
	}
	return true
}

// junk publishes something that no stage can use.
func (w *world) junk(a action) {
	log := w.connect(w.here)
	defer log.Close()
	p := log.NewPublisher(stream.PublisherOptions{})
	schema := []string{schemas.SchemaPair, schemas.SchemaBatch, "", "pairstream.pair/99"}[a.A%4]
	w.check(p.PublishBytes(w.t.Context(), schemas.Pairs, a.B%worldLanes, schema, fmt.Appendf(nil, "\xc1 junk %d", a.B)))
	w.check(p.Close(w.t.Context()))
}
