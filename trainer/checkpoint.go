package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// A checkpoint is a safetensors file that [model.Load] accepts, because it ignores the tensors after the weights.
//
//	<weight>                 the model, with its configuration and vocabulary in the metadata
//	optim.mean.<weight>      first moments
//	optim.square.<weight>    second moments
//	optim.steps              number of updates of every weight, by name
//	momentum.<weight>        the momentum encoder, if any
//	queue.image, queue.text  its queue, if any, newest first
//	queue.ids                image ids of the queue, 16 bytes a row
//
// In addition to the model's metadata, it holds the step, the version of the program, the caller's positions and the
// SHA-256 of everything.
const (
	optimMeanPrefix   = "optim.mean."
	optimSquarePrefix = "optim.square."
	optimSteps        = "optim.steps"
	momentumPrefix    = "momentum."
	queueImage        = "queue.image"
	queueText         = "queue.text"
	queueIDs          = "queue.ids"
)

// Snapshot is the state of a trainer between two steps, in memory. It stays as it is while training goes on. The
// batches of an open step are not in it: they come again.
type Snapshot struct {
	step     int64
	model    modelFacts
	weights  int // tensors that are the model's; they come first
	tensors  []safetensors.NamedTensor
	metadata map[string]string
}

// Snapshot copies the state.
func (t *Trainer) Snapshot(ctx context.Context) (*Snapshot, error) {
	tensors, metadata, err := t.whole(ctx)
	if err != nil {
		return nil, fmt.Errorf("copying the state at step %d: %w", t.step, err)
	}
	return &Snapshot{t.step, t.model, len(t.model.Params()), tensors, metadata}, nil
}

// Steps returns the number of steps done.
func (s *Snapshot) Steps() int64 { return s.step }

// Save writes the state to a new checkpoint in folder and removes all but the last two. Those of steps that stay
// divides are not removed; 0 divides none. Save makes the folder if need be. positions belongs to the caller and says
// how far the training is in each lane. Save may run beside training.
func (s *Snapshot) Save(folder string, positions json.RawMessage, stay int64) (path string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("saving checkpoint: %w", err)
	}
	metadata := maps.Clone(s.metadata)
	metadata[metadataPositions] = string(positions)
	path = filepath.Join(folder, fmt.Sprintf(checkpointFormat, s.step))
	if err := writeSealed(path, s.tensors, metadata); err != nil {
		return "", err
	}
	return path, prune(folder, stay)
}

// Save saves a snapshot of now.
func (t *Trainer) Save(ctx context.Context, folder string, positions json.RawMessage, stay int64) (path string, err error) {
	s, err := t.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	return s.Save(folder, positions, stay)
}

// whole returns the state, and its metadata.
func (t *Trainer) whole(ctx context.Context) ([]safetensors.NamedTensor, map[string]string, error) {
	tensors, err := t.state(ctx)
	if err != nil {
		return nil, nil, err
	}
	metadata, err := t.model.Metadata()
	if err != nil {
		return nil, nil, err
	}
	metadata[metadataStep] = strconv.FormatInt(t.step, 10)
	metadata[metadataVersion] = version.Full()
	if t.batches != t.step {
		metadata[metadataBatches] = strconv.FormatInt(t.batches, 10)
	}
	if t.followed && t.momentum != nil {
		metadata[metadataFollowed] = "true"
	}
	return tensors, metadata, nil
}

// state copies every tensor out of the worker.
func (t *Trainer) state(ctx context.Context) ([]safetensors.NamedTensor, error) {
	tensors, err := t.model.Export(ctx)
	if err != nil {
		return nil, err
	}
	var state torch.AdamWState
	shapes := make([][]int64, 0, len(tensors))
	err = t.worker.Do(ctx, func(*torch.Scope) error {
		state = t.optimizer.State()
		for _, p := range t.model.Params() {
			shapes = append(shapes, p.Tensor.Shape())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	add := func(name string, tensor safetensors.Tensor) {
		tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: tensor})
	}
	for i, p := range t.model.Params() {
		add(optimMeanPrefix+p.Name, safetensors.FromFloat32s(state.Means[i], shapes[i]...))
		add(optimSquarePrefix+p.Name, safetensors.FromFloat32s(state.Squares[i], shapes[i]...))
	}
	add(optimSteps, safetensors.FromInt64s(state.Steps, int64(len(state.Steps))))
	averages, err := t.momentum.export(ctx)
	return append(tensors, averages...), err
}

// Resume makes a trainer from a checkpoint with the given options, and returns the positions that were saved with it.
// The options may differ from those of the run that saved it. A momentum encoder that the checkpoint does not have
// starts from its weights. One that the options do not want is left out.
func Resume(ctx context.Context, w *torch.Worker, path string, o Options) (*Trainer, json.RawMessage, error) {
	f, err := openSealed(path)
	if err != nil {
		return nil, nil, err
	}
	t, err := resume(ctx, w, f, o)
	if err != nil {
		return nil, nil, fmt.Errorf("resuming from %s: %w", path, err)
	}
	return t, json.RawMessage(f.Metadata[metadataPositions]), nil
}

func resume(ctx context.Context, w *torch.Worker, f *safetensors.File, o Options) (*Trainer, error) {
	step, err := strconv.ParseInt(f.Metadata[metadataStep], 10, 64)
	if err != nil || step < 0 {
		return nil, fmt.Errorf("metadata %s is %q, want a number of steps", metadataStep, f.Metadata[metadataStep])
	}
	m, err := model.FromFile(ctx, w, f, model.LoadOptions{Trainable: true})
	if err != nil {
		return nil, err
	}
	t, err := New(ctx, m, o)
	if err != nil {
		m.Free()
		return nil, err
	}
	t.step, t.batches = step, step
	if text, ok := f.Metadata[metadataBatches]; ok {
		if t.batches, err = strconv.ParseInt(text, 10, 64); err != nil || t.batches < 0 {
			t.Free()
			return nil, fmt.Errorf("metadata %s is %q, want a number of batches", metadataBatches, text)
		}
	}
	t.followed = f.Metadata[metadataFollowed] == "true"
	if err := t.restore(ctx, f); err != nil {
		t.Free()
		return nil, err
	}
	return t, nil
}

// restore restores optimiser, momentum encoder and queue.
func (t *Trainer) restore(ctx context.Context, f *safetensors.File) error {
	var state torch.AdamWState
	var err error
	if state.Steps, err = lookUp(f, optimSteps, safetensors.Tensor.Int64s); err != nil {
		return err
	}
	for i, p := range t.model.Params() {
		if _, saved := f.Tensor(p.Name); !saved { // the bias of a sigmoid loss, which the run that saved it did not have
			state.Means, state.Squares = append(state.Means, []float32{0}), append(state.Squares, []float32{0})
			state.Steps = slices.Insert(state.Steps, i, 0)
			continue
		}
		mean, err := lookUp(f, optimMeanPrefix+p.Name, safetensors.Tensor.Float32s)
		if err != nil {
			return err
		}
		square, err := lookUp(f, optimSquarePrefix+p.Name, safetensors.Tensor.Float32s)
		if err != nil {
			return err
		}
		state.Means, state.Squares = append(state.Means, mean), append(state.Squares, square)
	}
	err = t.worker.Do(ctx, func(*torch.Scope) error { return t.optimizer.SetState(state) })
	if err != nil {
		return err
	}
	if _, saved := f.Tensor(momentumPrefix + t.model.Params()[0].Name); !saved || t.momentum == nil {
		return nil
	}
	restored, err := momentumFrom(ctx, t.model, f, momentumPrefix, t.options.Momentum)
	if err != nil {
		return err
	}
	t.momentum.free()
	t.momentum = restored
	return t.momentum.restoreQueue(ctx, f)
}

func lookUp[T any](f *safetensors.File, name string, read func(safetensors.Tensor) ([]T, error)) ([]T, error) {
	tensor, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("tensor %s is missing", name)
	}
	values, err := read(tensor)
	if err != nil {
		return nil, fmt.Errorf("reading tensor %s: %w", name, err)
	}
	return values, nil
}

// export copies the average and the queue out of the worker.
func (a *momentum) export(ctx context.Context) ([]safetensors.NamedTensor, error) {
	if a == nil {
		return nil, nil
	}
	tensors, err := a.model.Export(ctx)
	if err != nil {
		return nil, err
	}
	for i := range tensors {
		tensors[i].Name = momentumPrefix + tensors[i].Name
	}
	if a.image == nil {
		return tensors, nil
	}
	ids := make([]byte, 0, 16*len(a.ids))
	for _, id := range a.ids {
		ids = append(ids, id[:]...)
	}
	err = a.model.Worker().Do(ctx, func(*torch.Scope) error {
		for name, rows := range map[string]*torch.Tensor{queueImage: a.image, queueText: a.text} {
			tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: safetensors.FromFloat32s(rows.Float32s(), rows.Shape()...)})
		}
		return nil
	})
	tensors = append(tensors, safetensors.NamedTensor{
		Name: queueIDs, Tensor: safetensors.Tensor{DType: "U8", Shape: []int64{int64(len(a.ids)), 16}, Data: ids},
	})
	return tensors, err
}

// restoreQueue takes the newest entries that fit.
func (a *momentum) restoreQueue(ctx context.Context, f *safetensors.File) error {
	ids, ok := f.Tensor(queueIDs)
	if !ok || a.limit == 0 {
		return nil
	}
	rows := min(a.limit, len(ids.Data)/16)
	width := a.model.Config.EmbedDim
	kept := map[string][]float32{}
	for _, name := range []string{queueImage, queueText} {
		values, err := lookUp(f, name, safetensors.Tensor.Float32s)
		if err != nil {
			return err
		}
		if len(values) < rows*width {
			return fmt.Errorf("tensor %s has %d values, want %d rows of %d", name, len(values), rows, width)
		}
		kept[name] = values[:rows*width]
	}
	for i := range rows {
		a.ids = append(a.ids, schemas.ImageID(ids.Data[16*i:16*i+16]))
	}
	return a.model.Worker().Do(ctx, func(s *torch.Scope) error {
		dtype := a.model.Params()[0].Tensor.DType()
		a.image = s.Keep(s.To(s.Float32s(kept[queueImage], int64(rows), int64(width)), dtype))
		a.text = s.Keep(s.To(s.Float32s(kept[queueText], int64(rows), int64(width)), dtype))
		return nil
	})
}
