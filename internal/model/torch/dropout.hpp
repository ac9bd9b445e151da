// What dropout keeps, from counters instead of a stream of random numbers: a function of the seed, the number of the
// draw since, and the place of the element, so that neither threads nor the order of the work change it, and backward
// finds the same elements again without a mask in memory.
#ifndef PAIRSTREAM_TORCH_DROPOUT_HPP
#define PAIRSTREAM_TORCH_DROPOUT_HPP

#include <cstdint>

namespace pairstream {

// Draw is one use of dropout.
struct Draw {
  uint64_t key = 0;
  double share = 0;  // of elements that are dropped, in [0, 1)

  bool drops() const { return share > 0; }
};

// seed_draws starts the calling thread's numbering of draws.
void seed_draws(uint64_t seed);

// next_draw is the calling thread's next draw.
Draw next_draw(double share);

// drop writes to y[i] either 0 or x[i] / (1 - share), for the n elements of a part of a tensor; y may be x. Two parts of
// one draw are independent of each other.
void drop(const float *x, float *y, int64_t n, const Draw &draw, int64_t part);

}  // namespace pairstream

#endif
