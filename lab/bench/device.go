package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/device"
)

// deviceRows are the rows that a GPU computes. No peer runs beside them. What others report of their machines is the
// target's text. The same run measures what the device can do, and how near a row comes to it.
var deviceRows = []row{
	{"gpu-group-256", "group build: V2T, V2V, SE (T2V by counting), exact", "5 minutes; the papers: two hours on two RTX 3090", deviceGroupRow(256)},
	{"gpu-group-512", "group build: V2T, V2V, SE (T2V by counting), exact", "-", deviceGroupRow(512)},
	{"gpu-kmeans", "k-means, K = 1,000, 20 iterations, with its choice of first centroids", "-", deviceKMeansRow},
	{"gpu-encode-b32", "encoder, images, forward only, ViT-B/32", "17,700 images/s: a current workstation GPU", deviceImagesRow(32, 17_700)},
	{"gpu-encode-b16", "encoder, images, forward only, ViT-B/16", "5,000 images/s: a current workstation GPU", deviceImagesRow(16, 5_000)},
	{"gpu-files-b32", "encoder: decode, resize and embed, ViT-B/32", "2,500 pairs/s: clip-retrieval on an A100", deviceFilesRow(32, 2_500)},
	{"gpu-files-b16", "encoder: decode, resize and embed, ViT-B/16", "1,100 pairs/s: clip-retrieval on an A100", deviceFilesRow(16, 1_100)},
	{"gpu-cond", "Con-D's scores, preset base, two candidates each way", "-", deviceConDRow},
	{"gpu-train", "training step, preset base, GRIT-VLP's losses", "600 pairs/s; the papers: 139 on an A100", deviceTrainRow},
}

// vit returns a model whose image encoder is ViT-B, as CLIP has it.
func vit(patch int) (model.Config, error) {
	c, err := model.Preset("base", stepVocabulary("base"))
	c.ImageSize, c.PatchSize = 224, patch
	return c, err
}

// shape returns the model of a job: its preset, with the patches that the job asks for.
func (j job) shape(vocabulary int) (model.Config, error) {
	c, err := model.Preset(j.Preset, vocabulary)
	if patch := j.option("patch"); patch > 0 {
		c.ImageSize, c.PatchSize = j.option("size"), patch
	}
	return c, err
}

// tensors makes a worker for the job's device. On the processor it computes in float32, as the peers do. A GPU computes
// in bfloat16, with the kernels that it likes best.
func (j job) tensors() (*torch.Worker, error) {
	o := torch.WorkerOptions{Threads: j.Threads, Deterministic: true}
	if j.Precision == torch.BFloat16.String() {
		o.Precision = torch.BFloat16
	}
	if j.Device != "" {
		o = torch.WorkerOptions{Device: j.Device, Threads: j.Threads, Precision: torch.BFloat16}
	}
	return torch.NewWorker(o)
}

// deviceName returns the name of a device and of the libtorch that computes on it.
func deviceName(ctx context.Context, device string) string {
	library := "libtorch " + torch.Running()
	if device == "cpu" {
		return library + " on the processor"
	}
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").Output()
	if err != nil {
		return device + ", " + library
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first) + ", " + library
}

// engine returns an engine that finds neighbours and clusters on the job's device.
func (j job) engine() (knn.Engine, error) {
	if j.Device == "" {
		return cpu.Engine{}, nil
	}
	w, err := j.tensors()
	if err != nil {
		return nil, err
	}
	return device.New(w, device.Options{}), nil
}

// against compares a row's operations with what the device can do.
func (b *bench) against(ctx context.Context, out *Result, operations float64) error {
	answers, err := b.alone(ctx, "products", job{Folder: b.folder, Options: map[string]float64{"side": float64(b.size(8192, 256))}}, 1)
	if err != nil {
		return err
	}
	limit := figure(answers, func(a answer) float64 { return a.Values["per_second"] }).Value
	out.Extra = map[string]float64{"operations_per_second": operations, "limit_per_second": limit, "share": operations / limit}
	out.Bound = fmt.Sprintf("%.3g of %.3g TFLOP/s: %.0f %% of what large products reach", operations/1e12, limit/1e12, 100*operations/limit)
	return nil
}

func deviceGroupRow(dim int) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		n := b.size(5_000_000, 1_000)
		j := job{Folder: b.folder, Options: map[string]float64{"rows": float64(n), "dim": float64(dim), "sample": 20}}
		out, err := deviceSearch(ctx, b, "group", j)
		if err != nil {
			return nil, err
		}
		out.Checks = []string{fmt.Sprintf("the nearest texts of %.0f images, one by one on the processor", j.Options["sample"])}
		out.Met = dim > 256 || out.Ours.Value < (5*time.Minute).Seconds()
		return out, b.against(ctx, out, 4*float64(dim)*float64(n)*float64(n)/out.Ours.Value)
	}
}

func deviceKMeansRow(ctx context.Context, b *bench) (*Result, error) {
	n, clusters := b.size(5_000_000, 1_000), b.size(1_000, 20)
	j := job{Folder: b.folder, Options: map[string]float64{
		"rows": float64(n), "dim": benchDim, "clusters": float64(clusters), "iterations": 20, "sample": 20,
	}}
	out, err := deviceSearch(ctx, b, "kmeans", j)
	if err != nil {
		return nil, err
	}
	out.Met = true
	rounds := out.Extra["rounds"]
	return out, b.against(ctx, out, 2*benchDim*float64(n)*float64(clusters)*rounds/out.Ours.Value)
}

// deviceSearch measures work on a group's vectors and checks some of the results.
func deviceSearch(ctx context.Context, b *bench, kind string, j job) (out *Result, err error) {
	if err := writePairs(j, j.option("rows")); err != nil {
		return nil, err
	}
	s, err := b.ours(ctx, kind, j)
	if err != nil {
		return nil, err
	}
	defer closing(s, &err)
	answers, err := race(0, min(b.repeats, 3), "run", s)
	if err != nil {
		return nil, err
	}
	found, err := s.ask("sample")
	return &Result{
		Size: fmt.Sprintf("%s × %d", thousands(j.option("rows")), j.option("dim")), Against: "none", Unit: "s",
		Ours: figure(answers[0], seconds), Extra: found.Values,
	}, err
}

func deviceImagesRow(patch int, target float64) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		c, err := vit(patch)
		if err != nil {
			return nil, err
		}
		return deviceModelRow(ctx, b, "images", b.size(512, 2), patch, c.ImageSize, "images/s", c.ImageOperations(), target)
	}
}

func deviceConDRow(ctx context.Context, b *bench) (*Result, error) {
	c, err := model.Preset("base", stepVocabulary("base"))
	if err != nil {
		return nil, err
	}
	return deviceModelRow(ctx, b, "discriminate", b.size(96, 4), 0, c.ImageSize, "pairs/s", c.ScoreOperations(11, 2), 0)
}

func deviceTrainRow(ctx context.Context, b *bench) (*Result, error) {
	c, err := model.Preset("base", stepVocabulary("base"))
	if err != nil {
		return nil, err
	}
	return deviceModelRow(ctx, b, "train", b.size(96, 4), 0, c.ImageSize, "pairs/s", c.StepOperations(11), 600)
}

// deviceModelRow measures one of the base worker's commands.
func deviceModelRow(ctx context.Context, b *bench, command string, batch, patch, size int, unit string, operations, target float64) (out *Result, err error) {
	preset := map[bool]string{false: "base", true: "micro"}[b.short]
	j := job{Folder: b.folder, Preset: preset, Options: map[string]float64{"batch": float64(batch), "steps": 1}}
	if !b.short {
		j.Options["patch"], j.Options["size"] = float64(patch), float64(size)
	}
	s, err := b.ours(ctx, "base", j)
	if err != nil {
		return nil, err
	}
	defer closing(s, &err)
	answers, err := race(2, b.repeats, command, s)
	if err != nil {
		return nil, err
	}
	out = &Result{Size: fmt.Sprintf("batch %d, %d pixels", batch, size), Against: "none", Unit: unit}
	out.Ours = figure(answers[0], func(a answer) float64 { return float64(batch) / a.Seconds })
	out.Met = out.Ours.Value >= target
	return out, b.against(ctx, out, operations*out.Ours.Value)
}

func deviceFilesRow(patch int, target float64) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		n, batch := b.size(2048, 4), b.size(256, 2)
		j := job{Folder: b.folder, Preset: map[bool]string{false: "base", true: "micro"}[b.short], Options: map[string]float64{
			"images": float64(n), "batch": float64(batch), "size": 32,
		}}
		c, err := vit(patch)
		if err != nil {
			return nil, err
		}
		if !b.short {
			j.Options["patch"], j.Options["size"] = float64(patch), float64(c.ImageSize)
		}
		if _, err := writePhotos(j, n); err != nil {
			return nil, err
		}
		answers, err := b.alone(ctx, "encode", j, 1)
		if err != nil {
			return nil, err
		}
		out := &Result{Size: fmt.Sprintf("%d × %d JPEG and a caption, batches of %d", photoWidth, photoHeight, batch), Against: "none", Unit: "pairs/s"}
		out.Ours = figure(answers, func(a answer) float64 { return float64(n) / a.Seconds })
		out.Met = out.Ours.Value >= target
		return out, b.against(ctx, out, (c.ImageOperations()+c.TextOperations(12))*out.Ours.Value)
	}
}

// productsWorker multiplies large square matrices of bfloat16, to know what the device can reach.
type productsWorker struct {
	worker *torch.Worker
	side   int
}

func newProductsWorker(_ context.Context, j job) (worker, error) {
	tensors, err := j.tensors()
	w := &productsWorker{worker: tensors, side: j.option("side")}
	return worker{"run": w.run, atEnd: ending(w.free), "check": func(ctx context.Context, _ *answer) error { return w.multiply(ctx, 1) }}, err
}

func (w *productsWorker) free() error {
	w.worker.Close()
	return nil
}

func (w *productsWorker) run(ctx context.Context, a *answer) error {
	const products = 20
	started := time.Now()
	if err := w.multiply(ctx, products); err != nil {
		return err
	}
	side := float64(w.side)
	a.Values["per_second"] = products * 2 * side * side * side / time.Since(started).Seconds()
	return nil
}

// multiply multiplies, waits, and looks at one element.
func (w *productsWorker) multiply(ctx context.Context, times int) error {
	const value = 1.0 / 64
	return w.worker.Do(ctx, func(s *torch.Scope) error {
		side := int64(w.side)
		x, y := s.Full(value, torch.BFloat16, side, side), s.Full(0, torch.BFloat16, side, side)
		for range times {
			err := s.Nest(func(s *torch.Scope) error {
				y.CopyFrom(s.MatMul(x, x))
				return nil
			})
			if err != nil {
				return err
			}
		}
		corner := s.Narrow(s.Reshape(y, -1), 0, 0, 1)
		if got := s.To(corner, torch.Float32).Item(); got != float64(side)*value*value {
			return fmt.Errorf("an element of the product is %g, want %g", got, float64(side)*value*value)
		}
		return nil
	})
}
