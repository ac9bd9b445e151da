package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/process/recipe"
)

// removed is a setting of an earlier build that this one does not have.
type removed struct {
	value   string // the value in force, in terms of the former setting; an equal value is ignored
	instead string // the replacement
	refused bool   // records or training would silently change: the process does not start

	// renew returns the equivalent settings; nil: there are none. value is then their default.
	renew func(old map[string]string) map[string]string
}

// fixed returns a setting that became a constant, without an effect on records.
func fixed(value, instead string) removed { return removed{value: value, instead: instead} }

// replaced returns a setting that another one replaces, or that affects records.
func replaced(value, instead string) removed {
	return removed{value: value, instead: instead, refused: true}
}

// merged returns a setting that was merged into another one, with its default.
func merged(standard, instead string, renew func(old map[string]string) map[string]string) removed {
	return removed{value: standard, instead: instead, refused: true, renew: renew}
}

// part returns a setting that became an element of a list in another one.
func part(into, standard, instead string, list func(old map[string]string) string) removed {
	return merged(standard, instead, func(old map[string]string) map[string]string { return map[string]string{into: list(old)} })
}

// connected returns the losses that used connections, when each had its own switch.
func connected(old map[string]string) string {
	var on []string
	for _, loss := range []string{"itc", "itm", "mlm"} {
		if recipe.SameValue(cmp.Or(old["ECM_"+strings.ToUpper(loss)], "true"), "true") {
			on = append(on, loss)
		}
	}
	return cmp.Or(strings.Join(on, ","), "none")
}

// moments returns the three former settings of AdamW.
func moments(old map[string]string) string {
	return cmp.Or(old["ADAMW_BETA1"], "0.9") + "," + cmp.Or(old["ADAMW_BETA2"], "0.999") + "," + cmp.Or(old["ADAMW_EPS"], "1e-8")
}

// removals lists the settings of earlier builds that users may still set.
var removals = map[string]removed{
	"ADAMW_BETA1": part("ADAMW", "0.9,0.999,1e-8", "ADAMW is a list of three numbers", moments),
	"ADAMW_BETA2": part("ADAMW", "0.9,0.999,1e-8", "ADAMW is a list of three numbers", moments),
	"ADAMW_EPS":   part("ADAMW", "0.9,0.999,1e-8", "ADAMW is a list of three numbers", moments),
	"AUGMENT_LEVEL": merged("2,7", "AUGMENT_OPS has it as its second number", func(old map[string]string) map[string]string {
		ops, _, _ := strings.Cut(cmp.Or(old["AUGMENT_OPS"], "2"), ",")
		return map[string]string{"AUGMENT_OPS": ops + "," + old["AUGMENT_LEVEL"]}
	}),
	"CLUSTER_ITERATIONS": replaced("20", "k-means takes at most 20 iterations"),
	"CLUSTER_MODALITY":   replaced("image", "images are clustered, as in GPN-S"),
	"COND_KEEP":          fixed("4000000", "a lane keeps 4,000,000 scores"),
	"COND_KEEP_BYTES":    fixed("268435456", "a lane keeps 256 MiB of encodings, or its share of a quarter of GOMEMLIMIT"),
	"COND_PART":          fixed("0", "8 candidates at once on the processor, 128 on a GPU"),
	"COND_THRESHOLD": merged("", "ECM_HIGH is the threshold, and COND_MIN_PRECISION=auto:SHARE chooses it", func(old map[string]string) map[string]string {
		if old["COND_THRESHOLD"] == "auto" {
			return map[string]string{"COND_MIN_PRECISION": "auto:" + cmp.Or(old["COND_MIN_PRECISION"], "0.4")}
		}
		return map[string]string{"ECM_HIGH": old["COND_THRESHOLD"]}
	}),
	"CONSOLE_INDEX_PAIRS": fixed("10000000", "the console's index holds 10,000,000 pairs"),
	"ENCODER_IMAGE_SIZE":  fixed("0", "the encoder finds the size of a TorchScript archive's images, or reads it from the archive"),
	"ENCODER_MERGES": merged("", "ENCODER_VOCAB takes CLIP's merges too", func(old map[string]string) map[string]string {
		return map[string]string{"ENCODER_VOCAB": old["ENCODER_MERGES"]}
	}),
	"ENCODER_WORKERS": fixed("", "four images are read at once for each processor; GOMAXPROCS takes fewer"),
	"CURRICULUM_EPOCHS": merged("none", "TEXTS=curriculum:EPOCHS says it", func(old map[string]string) map[string]string {
		curriculum := old["TEXTS"] == "curriculum" || old["TEXTS"] == "" && strings.HasPrefix(old["RECIPE"], "gpn-s")
		if !curriculum || recipe.SameValue(old["CURRICULUM_EPOCHS"], "0") {
			return nil
		}
		return map[string]string{"TEXTS": "curriculum:" + old["CURRICULUM_EPOCHS"]}
	}),
	"DEDUPE_NEAR_COSINE": merged("keep", "DEDUPE_NEAR=drop:COSINE or count:COSINE says it", func(old map[string]string) map[string]string {
		return numbered(old, "DEDUPE_NEAR", "DEDUPE_NEAR_COSINE", "count", "drop")
	}),
	"ECM_ITC": part("ECM_LOSSES", "itc,itm,mlm", "ECM_LOSSES lists the losses that learn from connections", connected),
	"ECM_ITM": part("ECM_LOSSES", "itc,itm,mlm", "ECM_LOSSES lists the losses that learn from connections", connected),
	"ECM_MLM": part("ECM_LOSSES", "itc,itm,mlm", "ECM_LOSSES lists the losses that learn from connections", connected),
	"EPOCH_ORDER": merged("1", "EPOCH_GROUPS above 1 goes epoch by epoch over so many groups of a lane", func(old map[string]string) map[string]string {
		if old["EPOCH_ORDER"] != "lane" {
			return map[string]string{"EPOCH_GROUPS": "1"}
		}
		return map[string]string{"EPOCH_GROUPS": cmp.Or(old["EPOCH_GROUPS"], "1")}
	}),
	"MOMENTUM": merged("0", "MOMENTUM_DECAY above 0 keeps a momentum encoder", func(old map[string]string) map[string]string {
		if !recipe.SameValue(old["MOMENTUM"], "true") {
			return map[string]string{"MOMENTUM_DECAY": "0"}
		}
		return map[string]string{"MOMENTUM_DECAY": cmp.Or(old["MOMENTUM_DECAY"], "0.995")}
	}),
	"NEIGHBORS_ENGINE": fixed("auto", "neighbours and clusters are computed on DEVICE where that is a GPU, else on the processor"),
	"NEIGHBORS_GROUPS": merged("group", "NEIGHBORS_SCOPE=lane:GROUPS or crawl:GROUPS says it", func(old map[string]string) map[string]string {
		return numbered(old, "NEIGHBORS_SCOPE", "NEIGHBORS_GROUPS", "lane", "crawl")
	}),
	"TEXT_SHARE": merged("none", "TEXTS=share:NUMBER says it", func(old map[string]string) map[string]string {
		return numbered(old, "TEXTS", "TEXT_SHARE", "share")
	}),
	"GRIT_START_AS_RELEASED": replaced("false", "a walk of grit begins anywhere, as the paper says"),
	"GRIT_SAME_IMAGE":        replaced("false", "SAME_IMAGE_NEGATIVES of the grouper is one switch for the walk, ITC, ITM and Con-D"),
	"GROUPER_SPOOL_DIR":      replaced("", "groups that wait for their next epoch lie in the folder that TMPDIR names"),
	"GROUPER_WORKERS":        fixed("", "the grouper takes all processors; GOMAXPROCS takes fewer"),
	"IMAGE_CACHE_BYTES":      fixed("268435456", "256 MiB of decoded images are kept, or an eighth of GOMEMLIMIT"),
	"IMAGE_WORKERS":          fixed("", "four images are read at once for each processor; GOMAXPROCS takes fewer"),
	"INDEXER_THREADS":        fixed("0", "the indexer takes all processors; GOMAXPROCS takes fewer"),
	"ITC_TRIPLE": merged("softmax", "ITC_LOSS=triple has TCL's six terms", func(old map[string]string) map[string]string {
		if recipe.SameValue(old["ITC_TRIPLE"], "true") {
			return map[string]string{"ITC_LOSS": "triple"}
		}
		return nil
	}),
	"ITC_REPORT_KL":  fixed("false", "the consistency term is reported as the cross-entropy"),
	"ITM_SAME_IMAGE": replaced("false", "SAME_IMAGE_NEGATIVES of the grouper is one switch for the walk, ITC, ITM and Con-D"),
	"LIVE_GROUPS":    fixed("1", "live search finds the open group and the latest closed one"),
	"LIVE_RECALL":    fixed("0.97", "live search aims at 97 % of the exact ten nearest"),
	"LIVE_TAIL":      fixed("512", "live search compares the latest 512 pairs one by one"),
	"LOSS_TRIES":     fixed("3", "a batch is set aside after 3 tries"),
	"LR_EPOCHS":      replaced("30", "LR_SCHEDULE=reference goes down in 30 epochs of equal length, to LR_TOTAL_STEPS"),
	"LR_EPOCH_STEPS": merged("", "LR_SCHEDULE=reference takes a 30th of LR_TOTAL_STEPS for an epoch", func(old map[string]string) map[string]string {
		steps, err := strconv.ParseInt(old["LR_EPOCH_STEPS"], 10, 64)
		if old["LR_SCHEDULE"] != "reference" || err != nil {
			return nil
		}
		return map[string]string{"LR_TOTAL_STEPS": strconv.FormatInt(30*steps, 10)}
	}),
	"LR_WARMUP_STRIDE":       replaced("100", "LR_SCHEDULE=reference updates the rate every 100 iterations of the warm-up"),
	"NEIGHBORS_SAME_IMAGE":   replaced("false", "an image's other captions are no V2V neighbours"),
	"REPACK_WORKERS":         fixed("16", "16 images are made smaller at once"),
	"KAFKA_RETENTION_TOPICS": replaced("", "KAFKA_RETENTION takes both, such as KAFKA_RETENTION=0s,batches=168h"),
	"STREAM_BATCH_BYTES":     fixed("786432", "a produce request has at most 768 KiB of records"),
	"STREAM_DRAIN_TIMEOUT":   fixed("5s", "half of STREAM_SESSION_TIMEOUT, at most 5s"),
	"STREAM_FLUSH_AFTER":     fixed("20ms", "a stage waits 20ms for more input"),
	"STREAM_LINGER":          fixed("5ms", "a produce request waits 5ms for more records, up to 50ms where requests take longer"),
	"STREAM_REQUEST_TIMEOUT": fixed("10s", "STREAM_SESSION_TIMEOUT, at least 10s"),
	"STREAM_STALL_AFTER":     fixed("10m", "a lane is reported as stalled after 10m"),
}

// numbered returns a setting that became one of these words with a number, which was a separate setting.
func numbered(old map[string]string, word, number string, words ...string) map[string]string {
	if !slices.Contains(words, old[word]) {
		return nil // the number had no effect
	}
	return map[string]string{word: old[word] + ":" + old[number]}
}

// TellRemoved looks for settings of earlier builds in an environment. It prints a line for each that has no effect, and
// returns an error for those whose loss would change records, training or deletions.
func TellRemoved(w io.Writer, environ map[string]string) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(removals)) {
		line, refused, _ := RemovedSetting(name, environ)
		switch {
		case line == "":
		case refused:
			problems = append(problems, errors.New(line))
		default:
			fmt.Fprintln(w, line)
		}
	}
	return errors.Join(problems...)
}

// RemovedSetting describes the replacement of a removed setting. The line is empty if these settings already have the
// same effect. known is false if no setting of this name was removed.
func RemovedSetting(name string, settings map[string]string) (line string, refused, known bool) {
	r, known := removals[name]
	value := settings[name]
	if !known || value == "" || r.renew == nil && recipe.SameValue(value, r.value) {
		return "", false, known
	}
	shown, instead := display.Printable(display.Redacted(value)), r.instead
	if r.renew != nil {
		news := r.renew(settings)
		switch {
		case news == nil: // it had no effect before either
			r.refused = false
		case r.holds(settings, news):
			return "", false, true
		}
		for _, into := range slices.Sorted(maps.Keys(news)) {
			instead += "; set " + into + "=" + display.Printable(display.Redacted(news[into]))
		}
	}
	return fmt.Sprintf("%s=%s has no effect, the setting was removed: %s; take it out", name, shown, instead), r.refused, true
}

// holds reports whether settings already have the wanted values. For unset variables the recipe counts, then the
// default, which is the value of r.
func (r removed) holds(settings, news map[string]string) bool {
	now, err := recipe.Overlay(settings)
	if err != nil {
		now = settings // parsing the recipe's name reports the error
	}
	for into, value := range news {
		if !recipe.SameValue(value, cmp.Or(now[into], r.value)) {
			return false
		}
	}
	return true
}

// Renewed translates the settings of an earlier build's run to this build. Settings that were removed without a
// successor stay, for [RemovedSetting].
func Renewed(settings map[string]string) map[string]string {
	out := maps.Clone(settings)
	for name, r := range removals {
		if settings[name] != "" && r.renew != nil {
			maps.Copy(out, r.renew(settings))
			delete(out, name)
		}
	}
	return out
}
