package service

import (
	"maps"
	"reflect"
	"testing"

	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/trainer"
)

func parse(environ map[string]string) (Settings, error) {
	all := map[string]string{"BUCKET_ROOTS": "file:///data"}
	maps.Copy(all, environ)
	return config.Parse[Settings](all)
}

func TestDefaults(t *testing.T) {
	s, err := parse(map[string]string{"SEED": "7"})
	want := trainer.MAFA()
	want.Seed = 7
	want.ITC.SoftFromEpoch = 0           // the encoder groups epoch 0, which the code of MAFA leaves at random
	want.StepBatches = 4                 // of 96, as on the four GPUs of the paper
	want.Schedule.TotalSteps = 1_562_490 // the recipe's epochs of the default group and batch
	if err != nil || s.Options() != want {
		t.Errorf("%v; the settings give %+v, want %+v", err, s.Options(), want)
	}
}

// Every option of the core has a value: from a variable, as a constant, or from the process for all of its stages.
func TestNoOptionIsForgotten(t *testing.T) {
	untagged(t, reflect.TypeFor[trainer.Options]())
}

func untagged(t *testing.T, options reflect.Type) {
	t.Helper()
	for f := range options.Fields() {
		switch f.Type.Kind() {
		case reflect.Struct:
			if f.Tag.Get("env") == "" {
				untagged(t, f.Type)
			}
		default:
			_, constant := f.Tag.Lookup("envDefault")
			if name := f.Tag.Get("env"); name == "" && !constant || name == "-" && f.Name != "Seed" {
				t.Errorf("%s.%s has neither a variable nor a constant", options, f.Name)
			}
		}
	}
}

// Errors name variables, not fields, since the user sets variables.
func TestProblemsNameVariables(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		"EVAL_EVERY is -1, want 0 or more": {"EVAL_EVERY": "-1"},
		"EVAL_DATA is empty with EVAL_EVERY=5, want folders, tars or places in a bucket with held-out pairs":                                  {"EVAL_EVERY": "5"},
		`CHECKPOINT_BEST is "loss", want "recall", "matching_error" or nothing`:                                                               {"CHECKPOINT_BEST": "loss"},
		`CHECKPOINT_BEST is "recall" with EVAL_EVERY=0, want EVAL_EVERY above 0: evaluations tell which one is best`:                          {"CHECKPOINT_BEST": "recall"},
		"EVAL_EVERY is 500 with CHECKPOINT_BEST=recall, want a multiple of CHECKPOINT_EVERY=1000: only checkpoints that are written can stay": {"CHECKPOINT_BEST": "recall", "EVAL_EVERY": "500", "EVAL_DATA": "/data"},
		`CHECKPOINT_UPLOAD is "ftp://host/x", want s3://bucket/prefix/, gs://bucket/prefix/ or a folder`:                                      {"CHECKPOINT_UPLOAD": "ftp://host/x"},
		"DROPOUT is 1, want 0..1, 1 excluded":                                                           {"DROPOUT": "1"},
		"MLM_PROBABILITY is NaN, want 0..1":                                                             {"MLM_PROBABILITY": "NaN"},
		"ITC_WEIGHT is -1, want 0..1e+06":                                                               {"ITC_WEIGHT": "-1"},
		"ITM_WEIGHT is -1, want 0..1e+06":                                                               {"ITM_WEIGHT": "-1"},
		"MLM_WEIGHT is -1, want 0..1e+06":                                                               {"MLM_WEIGHT": "-1"},
		"UNI_WEIGHT is -1, want 0..1e+06":                                                               {"UNI_WEIGHT": "-1"},
		"ITC_WEIGHT, ITM_WEIGHT, MLM_WEIGHT and UNI_WEIGHT are all 0, want one above":                   {"ITC_WEIGHT": "0", "ITM_WEIGHT": "0", "MLM_WEIGHT": "0"},
		"ECM_HIGH is 2, want 0..1":                                                                      {"ECM_HIGH": "2"},
		"ECM_LOW is 0.9, want 0..0.8":                                                                   {"ECM_LOW": "0.9"},
		`UNI_READING is "other", want "infonce", "printed" or "with_pos"`:                               {"UNI_READING": "other"},
		`ITC_TARGETS is "soft", want "onehot", "consistency", "smoothed" or "distilled"`:                {"ITC_TARGETS": "soft"},
		`ITC_FORM is "odd", want "additive", "mix" or "literal"`:                                        {"ITC_TARGETS": "consistency", "ITC_FORM": "odd"},
		"ITC_LAMBDA is 1.5, want 0..1 for the convex mix":                                               {"ITC_TARGETS": "consistency", "ITC_FORM": "mix", "ITC_LAMBDA": "1.5"},
		`ITC_TARGETS is "consistency" with MOMENTUM_QUEUE=8, want none: a row has no counterpart there`: {"ITC_TARGETS": "consistency", "MOMENTUM_DECAY": "0.9", "MOMENTUM_QUEUE": "8"},
		`ITC_FORM is "literal" with ITC_GATHER=true, want "additive" or "mix": a row takes the column of a square matrix there, and gathered rows are no anchors`: {"ITC_TARGETS": "consistency", "ITC_FORM": "literal", "ITC_GATHER": "true"},
		`ITC_TARGETS is "distilled", which needs MOMENTUM_DECAY above 0`:                                                                                          {"ITC_TARGETS": "distilled"},
		"ITC_ALPHA is 2, want 0..1":                                                                                      {"ITC_ALPHA": "2"},
		"ITC_LAMBDA is -1, want 0 or more":                                                                               {"ITC_LAMBDA": "-1"},
		"ITC_SOFT_FROM_EPOCH is -1, want 0 or more":                                                                      {"ITC_SOFT_FROM_EPOCH": "-1"},
		"ITC_ALPHA_RAMP_STEPS is -1, want 0 or more":                                                                     {"ITC_ALPHA_RAMP_STEPS": "-1"},
		"MOMENTUM_DECAY is 2, want 0..1":                                                                                 {"MOMENTUM_DECAY": "2"},
		"MOMENTUM_QUEUE is 8, want 0 with MOMENTUM_DECAY=0":                                                              {"MOMENTUM_QUEUE": "8"},
		"ADAMW is 1,0.999,1e-08, want two decays of 0..1, 1 excluded, and an epsilon above 0":                            {"ADAMW": "1,0.999,1e-8"},
		"ADAMW is 0.9,1,1e-08, want two decays of 0..1, 1 excluded, and an epsilon above 0":                              {"ADAMW": "0.9, 1, 1e-8"},
		"ADAMW is 0.9,0.999,0, want two decays of 0..1, 1 excluded, and an epsilon above 0":                              {"ADAMW": "0.9,0.999,0"},
		"ADAMW is NaN,0.999,1e-08, want two decays of 0..1, 1 excluded, and an epsilon above 0":                          {"ADAMW": "NaN,0.999,1e-8"},
		`ADAMW="0.9,0.999": want three numbers, comma separated, such as 0.9,0.999,1e-8`:                                 {"ADAMW": "0.9,0.999"},
		`ADAMW="0.9,0.999,1e-8,1": want three numbers, comma separated, such as 0.9,0.999,1e-8`:                          {"ADAMW": "0.9,0.999,1e-8,1"},
		`ADAMW="a,b,c": want three numbers, comma separated, such as 0.9,0.999,1e-8`:                                     {"ADAMW": "a,b,c"},
		`ECM_LOSSES="itc,uni": want itc, itm and mlm, comma separated, or none`:                                          {"ECM_LOSSES": "itc,uni"},
		`ECM_LOSSES="none,itc": want itc, itm and mlm, comma separated, or none`:                                         {"ECM_LOSSES": "none,itc"},
		"WEIGHT_DECAY is 2, want 0..1":                                                                                   {"WEIGHT_DECAY": "2"},
		`LR_SCHEDULE is "step", want "cosine", "reference" or "stream"`:                                                  {"LR_SCHEDULE": "step"},
		"LR is 0, want more than 0":                                                                                      {"LR": "0", "LR_MIN": "0"},
		"LR_MIN is 1, want 0..0.0001 (LR)":                                                                               {"LR_MIN": "1"},
		"LR_WARMUP is -1, want 0 or more":                                                                                {"LR_WARMUP": "-1"},
		"LR_WARMUP_STEPS is -1, want 0 or more":                                                                          {"LR_WARMUP_STEPS": "-1"},
		"LR_TOTAL_STEPS is 10, want more than LR_WARMUP_STEPS=2000":                                                      {"LR_TOTAL_STEPS": "10"},
		"LR_TOTAL_STEPS is 29, want at least 1 for each of 30 epochs":                                                    {"LR_SCHEDULE": "reference", "LR_TOTAL_STEPS": "29"},
		"WORLD_SIZE is 8, want 1, 2, 4 or another power of two, up to STEP_BATCHES=4: ranks share the batches of a step": {"WORLD_SIZE": "8"},
		"WORLD_SIZE is 3, want 1, 2, 4 or another power of two, up to STEP_BATCHES=4: ranks share the batches of a step": {"WORLD_SIZE": "3"},
		"WORLD_SIZE is 0, want 1, 2, 4 or another power of two, up to STEP_BATCHES=4: ranks share the batches of a step": {"WORLD_SIZE": "0"},

		"WORLD_SIZE is 2 and STEP_BATCHES is 1: ranks share the mini-batches of a step. Set STEP_BATCHES=2 for all stages: RECIPE=gpn-s and gpn-s-tcl then divide mini-batch and clusters by it; where BATCH_SIZE and GNS_CLUSTERS are set, divide them yourself": {"WORLD_SIZE": "2", "RECIPE": "gpn-s"},

		"RANK is 1 of WORLD_SIZE 1, want 0 to 0":    {"RANK": "1"},
		"RANK is -1 of WORLD_SIZE 2, want 0 to 1":   {"RANK": "-1", "WORLD_SIZE": "2"},
		"MASTER_PORT is 0, want 1 to 65535":         {"WORLD_SIZE": "2", "MASTER_PORT": "0"},
		"RANK_PORT is 65536, want 0 to 65535":       {"WORLD_SIZE": "2", "RANK_PORT": "65536"},
		`RANK_EXCHANGE is "gloo", want tcp or nccl`: {"WORLD_SIZE": "2", "RANK_EXCHANGE": "gloo"},
		"RANK_TIMEOUT is 1ms, want 1s or more":      {"WORLD_SIZE": "2", "RANK_TIMEOUT": "1ms"},
		"RANK_JOIN_TIMEOUT is 0s, want 1s or more":  {"WORLD_SIZE": "2", "RANK_JOIN_TIMEOUT": "0s"},

		`RANK_TOKEN is empty and MASTER_ADDR is "trainer-0": want a secret that all ranks share, since others may reach that address`: {"WORLD_SIZE": "2", "MASTER_ADDR": "trainer-0"},

		`TRAIN_FROM is "end", want "start" or "now"`:                                                                 {"TRAIN_FROM": "end"},
		`ITM_NEGATIVES is "near", want "hardest", "multinomial" or "random"`:                                         {"ITM_NEGATIVES": "near"},
		"STEP_BATCHES is 6, want 1, 2, 4, 8 or another power of two":                                                 {"STEP_BATCHES": "6"},
		"STEP_BATCHES is 0, want 1, 2, 4, 8 or another power of two":                                                 {"STEP_BATCHES": "0"},
		"CLIP_NORM is -1, want 0..1e+06":                                                                             {"CLIP_NORM": "-1"},
		"MLM_DISTILL is 0.4, which needs MOMENTUM_DECAY above 0":                                                     {"MLM_DISTILL": "0.4"},
		`ITC_LOSS is "triple", which needs MOMENTUM_DECAY above 0`:                                                   {"ITC_LOSS": "triple"},
		`ITC_LOSS is "sigmoid" with ITC_TARGETS=smoothed, want "onehot": the sigmoid of a pair has no row to soften`: {"ITC_LOSS": "sigmoid"},
		`ITC_LOSS is "hinge", want "softmax", "triple" or "sigmoid"`:                                                 {"ITC_LOSS": "hinge"},
		"CHECKPOINT_EVERY is -1, want 0 or more":                                                                     {"CHECKPOINT_EVERY": "-1"},

		"CHECKPOINT_KEEP_EVERY is 1500, want 0 or a multiple of CHECKPOINT_EVERY=1000: only checkpoints that are written can stay": {"CHECKPOINT_KEEP_EVERY": "1500"},
		"CHECKPOINT_KEEP_EVERY is -1, want 0 or a multiple of CHECKPOINT_EVERY=1000: only checkpoints that are written can stay":   {"CHECKPOINT_KEEP_EVERY": "-1"},
		"CHECKPOINT_KEEP_EVERY is 5, want 0 or a multiple of CHECKPOINT_EVERY=0: only checkpoints that are written can stay":       {"CHECKPOINT_KEEP_EVERY": "5", "CHECKPOINT_EVERY": "0"},

		"AUGMENT_MIN_SCALE is 2, want 0.01..1": {"AUGMENT_MIN_SCALE": "2"},
		"AUGMENT_FLIP is -1, want 0..1":        {"AUGMENT_FLIP": "-1"},
		"AUGMENT_COLOR is 3, want 0..1":        {"AUGMENT_COLOR": "3"},
	} {
		if _, err := parse(environ); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", environ, err, want)
		}
	}
}

// TestLossesOfConnections reads which losses learn from connections, and says it again.
func TestLossesOfConnections(t *testing.T) {
	for text, want := range map[string]trainer.ECMLosses{
		"itc,itm,mlm": {ITC: true, ITM: true, MLM: true}, "none": {}, "itm": {ITM: true}, "mlm, itc": {ITC: true, MLM: true},
	} {
		s, err := parse(map[string]string{"ECM_LOSSES": text})
		var again trainer.ECMLosses
		if err != nil || s.Core.ECM.ECMLosses != want || again.UnmarshalText([]byte(want.String())) != nil || again != want {
			t.Errorf("%s: %v, %+v, which says %s, want %+v", text, err, s.Core.ECM.ECMLosses, s.Core.ECM.ECMLosses, want)
		}
	}
}
