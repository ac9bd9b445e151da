// Package capacity counts what a crawl of so many pairs needs, to be encoded, grouped and trained on within so many
// days.
//
// A [Request] goes in: pairs, days, a model's counts of operations, and a kind of GPU. A [Plan] comes out: how many
// GPUs and processor cores every stage needs, lanes, storage, traffic and memory. It lists the [Assumption] behind
// every figure.
//
// What is promised:
//
//  1. A plan is a function of its request. It reads no clock, no environment and no machine.
//  2. Every stage does its work in the days that were asked for, if the assumptions hold.
//  3. A request that no plan can meet is an error that says which value to change.
//
// Time is laid out as this: a tenth of the days passes before training begins. Half of that fills the first group of
// every lane, and half closes them. The rest is training's. Later groups are filled and closed while their lanes train
// on those before.
//
// It does not know queues, failures or slow networks: nothing is added for them.
package capacity

// Model holds the operations that a model needs, and its size. A product of two numbers counts two.
type Model struct {
	Name       string
	Encode     float64 // operations of a pair in the encoder
	Score      float64 // of the connection discriminator, per pair and epoch; 0: there is none
	Train      float64 // of a training step, per pair and epoch
	Dim        float64 // values of a vector
	Parameters float64
}

// GPU is a kind of GPU, as its vendor describes it.
type GPU struct {
	Name       string
	Operations float64 // per second, of dense products in bfloat16
	Bandwidth  float64 // bytes per second of its memory
	Memory     float64 // bytes
}

// Request says what is to be done.
type Request struct {
	Pairs     float64
	Days      float64
	Epochs    float64
	Group     float64 // pairs of a group, GROUP_SIZE
	Lanes     int     // LANES; 0: the plan takes as many as it needs
	Batch     float64 // pairs of a mini-batch, BATCH_SIZE
	Space     float64 // pairs of a walk, SEARCH_SPACE
	Image     float64 // bytes of an image in the bucket
	TrainRate float64 // measured pairs/s of a GPU in training; 0: it is predicted from counts
	Model     Model
	GPU       GPU
}

// Stage is what a service needs.
type Stage struct {
	Name     string
	GPUHours float64
	GPUs     int
	Cores    int     // of processors, beside the GPUs
	Rate     float64 // pairs/s that the stage has to process, an epoch's pairs once more in every epoch
}

// Plan is the answer to a request.
type Plan struct {
	Request Request
	Lanes   int
	Group   float64 // pairs of a group; fewer than asked for when the lanes share fewer pairs
	Rounds  int     // groups of a lane, one after the other

	Fill, Close, Train float64 // seconds to fill the first groups, to close them, and to train
	Stages             []Stage
	IndexerCores       int // that close the groups in this time in the place of GPUs

	Kept       float64 // bytes on all brokers, when what may go is removed
	Everything float64 // bytes on all brokers, when nothing is removed
	Written    float64 // bytes/s that stages write, before replication
	Brokers    int

	Reads      float64 // bytes/s from the bucket
	ReadImages float64 // requests/s to the bucket

	IndexerMemory  float64 // bytes of all open groups
	ClosingMemory  float64 // more bytes for each group that is closing
	IndexerDevice  float64 // bytes on the GPU that closes a group
	GrouperMemory  float64
	TrainerWeights float64 // bytes of weights, gradients and moments on each GPU
	Exchange       float64 // bytes/s that a GPU of the trainer sends and receives each; 0: there is one GPU

	Assumptions []Assumption
}
