// Package dataset reads pairs from tars, and turns mini-batches into inputs of models.
//
// It has three parts:
//
//   - [Corpus] is a set of pairs read straight from tars, without the log. A first model is trained on one, and every
//     model is evaluated on one. It holds references and captions; images are read and decoded when they are needed.
//     The order is that of the tars. A Corpus is safe for concurrent use.
//   - [Loader] turns the references and texts of a mini-batch into pixels and token ids. Every random variation draws
//     from a generator keyed by the run's seed and the sample's position (lane, group, epoch, batch, row). So the
//     trainer and the connection discriminator see the same pixels (MAFA section 4.1 scores the augmented images). A
//     repeated batch has the same pixels again.
//   - [Produce] selects the messages of `pairstream produce`. It reads paths of WebDataset tars. It gives messages
//     with their lane, in an order that depends only on the tars and the options. Every caption of every image is one
//     message, except for images held out for evaluation. Every problem that the scan reports is one more, which the
//     encoder puts among the dead letters. So messages = pairs + problems (+ one seal a lane), and captions found =
//     pairs + held-out pairs. Every input is counted.
//
// The package does not know Kafka: the caller publishes.
package dataset
