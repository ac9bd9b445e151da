//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/schemas"
)

// actionKinds are drawn alike; those that matter most are there twice.
var actionKinds = []string{
	"produce", "produce", "produce", "produce anew", "restart", "restart", "kill", "kill", "start", "stop", "second owner", "settings", "settings", "settings",
	"seal", "final seal", "new namespace", "old checkpoint", "lose checkpoints", "lose image", "damage image", "junk", "replay dead letters", "pause",
	"inline", "retention", "newer record", "foreign record", "topic made anew", "more partitions", "wrong lanes", "look",
	"forget", "forget", "erase copies", "ranks", "ranks", "lose rank", "upload", "refuse uploads", "tear upload",
}

// play starts all stages, does what operators do, puts everything right and looks whether the books balance.
func (w *world) play(actions []action) {
	w.sum.sequences++
	for _, stage := range stageNames {
		w.start(stage)
	}
	w.beginWithOld()
	for _, a := range actions {
		w.sum.actions[a.Kind]++
		w.do(a)
	}
	w.upgrade(stageNames...)
	w.restoreTars()
	for _, s := range w.spaces {
		w.finish(s)
	}
}

// changes are the settings that operators change, with their values.
var changes = []struct {
	name   string
	values []string
	stages []string
}{
	{"EPOCHS", []string{"1", "2", "3"}, []string{"grouper"}},
	{"BATCH_SIZE", []string{"4", "2", "8"}, []string{"grouper"}},
	{"STRATEGY", []string{"grit", "random", "gns"}, []string{"grouper"}},
	{"CANDIDATES", []string{"1", "0"}, []string{"grouper"}},
	{"GRIT_FEATURES", []string{"training", "encoder"}, []string{"grouper"}},
	{"GROUP_SIZE", []string{"6", "4", "9"}, []string{"indexer"}},
	{"NEIGHBORS_K1", []string{"2", "1", "3"}, []string{"indexer"}},
	{"CLUSTERS", []string{"2", "1", "3"}, []string{"indexer"}},
	{"ENCODER_BATCH_SIZE", []string{"3", "1", "5"}, []string{"encoder"}},
	{"EPOCH_GROUPS", []string{"1", "2", "3"}, []string{"grouper"}},
	{"STEP_BATCHES", []string{"1", "2"}, []string{"trainer"}},
	{"TRAIN_LANE_ORDER", []string{"rotation", "arrival"}, []string{"trainer"}},
	{"CHECKPOINT_EVERY", []string{"3", "1", "0"}, []string{"trainer"}},
	{"SEED", []string{"3", "4"}, stageNames},
	{"ENCODER_CHECKPOINT", []string{weights.Setting, "", "other"}, []string{"encoder", "trainer"}},
	{"COND_CHECKPOINT", []string{"", "other"}, []string{"discriminator"}},
	{"COND_IMAGES", []string{"plain", "augmented"}, []string{"discriminator"}},
	{"COND_MIN_PRECISION", []string{"0", "0.4", "auto:0"}, []string{"discriminator"}},
	{"REPACK_ROOT", []string{"copies", ""}, []string{"indexer"}},
	{"STREAM_COMPRESSION", []string{"none", "zstd", "gzip"}, []string{"encoder", "indexer", "grouper", "discriminator"}},
}

// do does one thing. A and B choose among what there is, so that a shrunk sequence still means something.
func (w *world) do(a action) {
	stage := stageNames[a.A%len(stageNames)]
	switch a.Kind {
	case "produce", "produce anew":
		w.produce(filepath.Join(w.bucket(), fmt.Sprintf("%d.tar", a.A%siteTars)), a.Kind == "produce")
	case "restart", "kill":
		w.stop(stage, a.Kind == "kill")
		w.killing = a.Kind == "kill" // what is in hand at its end is lost, as with kill -9
		w.start(stage)
		w.killing = false
	case "start":
		if len(w.members[stage]) == 0 {
			w.start(stage)
		}
	case "stop":
		w.stop(stage, false)
	case "second owner":
		w.secondOwner(stage)
	case "settings":
		n := a.A + drawnValues*a.B // there are more settings than values of A
		c := changes[n%len(changes)]
		w.set(c.name, c.values[n/len(changes)%len(c.values)], c.stages)
	case "seal":
		w.seal("--lane", strconv.Itoa(a.A%worldLanes))
	case "final seal":
		w.finalSeal()
	case "new namespace":
		w.newNamespace(a.A%2 == 0)
	case "old checkpoint":
		w.oldCheckpoint()
	case "lose checkpoints":
		w.loseCheckpoints(a.A%2 == 0)
	case "lose image":
		w.check(os.Rename(filepath.Join(w.bucket(), w.tar(a)), filepath.Join(w.dir, "taken")))
	case "damage image":
		w.damage(w.tar(a), a.B)
	case "junk":
		w.junk(a)
	case "replay dead letters":
		w.must("dead-letters", "replay", "--all")
	case "inline":
		w.inline(a)
	case "retention":
		w.retention(a)
	case "newer record", "foreign record":
		w.strange(a)
	case "topic made anew":
		w.makeAnew(laneTopics[a.A%len(laneTopics)], a.B%2 == 0)
	case "more partitions":
		w.morePartitions(laneTopics[a.A%len(laneTopics)])
	case "wrong lanes":
		w.env["LANES"] = strconv.Itoa(worldLanes + 1)
		w.refused(stage, fmt.Sprintf("LANES=%d", worldLanes+1))
		w.env["LANES"] = strconv.Itoa(worldLanes)
	case "look":
		w.look()
	case "forget":
		w.forget(a)
	case "erase copies":
		w.must("forget", "--erase-copies", "--report")
	case "ranks":
		w.changeRanks()
	case "lose rank":
		w.loseRank(a.A%2 == 0)
	case "upload":
		w.upload()
	case "refuse uploads":
		w.refuseUploads()
	case "tear upload":
		w.tearUpload(a)
	case "upgrade":
		w.upgrade(stage)
	case "upgrade all":
		w.upgrade(stageNames...)
	case "roll back":
		w.rollBack(stage)
	case "pause":
		time.Sleep(time.Duration(a.A*a.B) * time.Millisecond)
	}
}

// tar returns a tar that is there, and puts all back when none is.
func (w *world) tar(a action) string {
	for i := range siteTars {
		name := fmt.Sprintf("%d.tar", (a.A+i)%siteTars)
		if _, err := os.Stat(filepath.Join(w.bucket(), name)); err == nil {
			return name
		}
	}
	w.restoreTars()
	return "0.tar"
}

// produce publishes a tar. What was published before is left out when it resumes. Behind a final seal it is refused.
func (w *world) produce(path string, resume bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		w.restoreTars()
		content, err = os.ReadFile(path)
	}
	w.check(err)
	before := w.published()
	out, err := w.command("produce", path, fmt.Sprintf("--resume=%t", resume))
	if err != nil {
		if !w.here.final || !strings.Contains(err.Error(), "final seal") {
			w.fatalf("pairstream produce: %v\n%s", err, out)
		}
		return
	}
	if after := w.published(); resume && w.here.doomed == "" && w.here.produced[path] == string(content) && after != before {
		w.fatalf("%s was published before: producing it again publishes %d records", path, after-before)
	}
	w.here.produced[path] = string(content)
}

// published returns the number of records that the lanes of pairs have had.
func (w *world) published() (n int64) {
	log := w.connect(w.here)
	defer log.Close()
	for lane := range worldLanes {
		b, err := log.Bounds(w.t.Context(), schemas.Pairs, lane)
		w.check(err)
		n += b.End
	}
	return n
}

func (w *world) finalSeal() {
	w.seal("--final")
	w.here.final = true
}

// seal seals a lane, or all. Behind a final seal this is refused.
func (w *world) seal(args ...string) {
	out, err := w.command(append([]string{"seal"}, args...)...)
	if err != nil && !(w.here.final && strings.Contains(err.Error(), "final seal")) {
		w.fatalf("pairstream seal %v: %v\n%s", args, err, out)
	}
}

// set changes a setting and restarts the processes that have it.
func (w *world) set(name, value string, stages []string) {
	switch {
	case strings.HasSuffix(name, "_CHECKPOINT") && value != weights.Setting:
		value = map[string]string{"": w.site.weights, "other": w.site.others}[value]
	case name == "REPACK_ROOT" && value != "":
		value = "file://" + filepath.Join(w.bucket(), value)
	}
	w.env[name] = value
	w.agree(name)
	if name == "EPOCHS" {
		n, err := strconv.Atoi(value)
		w.check(err)
		w.epochs[n] = true
	}
	for _, stage := range stages {
		if len(w.members[stage]) > 0 {
			w.stop(stage, false)
			w.start(stage)
		}
	}
}

// agree changes what would be refused beside a setting that was changed.
func (w *world) agree(name string) {
	if w.env["ENCODER_CHECKPOINT"] == weights.Setting && w.env["CHECKPOINT_EVERY"] == "0" {
		w.env["CHECKPOINT_EVERY"] = "1"
	}
	if w.env["WORLD_SIZE"] != "1" && w.env["STEP_BATCHES"] == "1" {
		if name == "WORLD_SIZE" {
			w.env["STEP_BATCHES"] = "2"
		} else {
			w.env["WORLD_SIZE"] = "1"
		}
	}
}

// secondOwner starts another process of a stage beside the one that runs. A trainer refuses to share its folder.
func (w *world) secondOwner(stage string) {
	if n := len(w.members[stage]); n == 0 || n > 2 {
		return
	}
	first := w.members[stage][0]
	m := w.startOne(stage)
	if stage != "trainer" {
		return
	}
	select {
	case <-m.done:
	case <-time.After(20 * time.Second):
		if !first.ended() {
			w.fatalf("two trainers run in one folder")
		}
		return
	}
	w.members[stage] = w.members[stage][:len(w.members[stage])-1]
}

// newNamespace turns to a new namespace. With an old folder the trainer must not start.
func (w *world) newNamespace(forgotten bool) {
	w.stopAll()
	folder := w.env["CHECKPOINT_DIR"]
	w.newSpace()
	if files, _ := filepath.Glob(filepath.Join(folder, "*.safetensors")); forgotten && len(files) > 0 {
		own := w.env["CHECKPOINT_DIR"]
		w.env["CHECKPOINT_DIR"] = folder
		w.refused("trainer", "another log")
		w.env["CHECKPOINT_DIR"] = own
	}
	w.startAll()
}

func (w *world) startAll() {
	for _, stage := range stageNames {
		if len(w.members[stage]) == 0 {
			w.start(stage)
		}
	}
}

func (w *world) stopAll() {
	for _, stage := range stageNames {
		w.stop(stage, false)
	}
}

// refused starts a process of this version that has to end by itself, with a reason. A broker that knows the reason a
// moment later lets it start; then it says the reason while it runs.
func (w *world) refused(stage, reason string) {
	old := w.old[stage]
	w.old[stage] = false
	m := w.startOne(stage)
	w.old[stage] = old
	for began := time.Now(); !m.ended(); time.Sleep(time.Millisecond) {
		if slices.ContainsFunc(m.counters.States(), func(s string) bool { return strings.Contains(s, reason) }) {
			m.cancel()
			<-m.done
			w.members[stage] = w.members[stage][:len(w.members[stage])-1]
			return
		}
		if time.Since(began) > 20*time.Second {
			w.fatalf("the %s starts although: %s", stage, reason)
		}
	}
	if m.err == nil || !strings.Contains(m.err.Error(), reason) {
		w.fatalf("the %s ends with %v, want a reason with %q", stage, m.err, reason)
	}
	w.members[stage] = w.members[stage][:len(w.members[stage])-1]
}

// oldCheckpoint puts the oldest checkpoint back, as if the others had never been.
func (w *world) oldCheckpoint() {
	w.stop("trainer", false)
	files, err := filepath.Glob(filepath.Join(w.env["CHECKPOINT_DIR"], "*.safetensors"))
	w.check(err)
	for i, f := range files {
		if i > 0 {
			w.check(os.Remove(f))
		}
	}
	w.start("trainer")
}

// loseCheckpoints removes the folder of checkpoints, or the whole of it but the order of lanes.
func (w *world) loseCheckpoints(whole bool) {
	w.stop("trainer", false)
	if whole {
		w.check(os.RemoveAll(w.env["CHECKPOINT_DIR"]))
	} else {
		files, err := filepath.Glob(filepath.Join(w.env["CHECKPOINT_DIR"], "*.safetensors"))
		w.check(err)
		for _, f := range files {
			w.check(os.Remove(f))
		}
	}
	w.start("trainer")
}

// damage flips bytes of an image.
func (w *world) damage(tar string, where int) {
	path := filepath.Join(w.bucket(), tar)
	raw, err := os.ReadFile(path)
	w.check(err)
	at := 512 + 40 + where*97
	for i := range 20 {
		raw[(at+i)%len(raw)] ^= 0x5a
	}
	w.check(os.WriteFile(path, raw, 0o600))
}
