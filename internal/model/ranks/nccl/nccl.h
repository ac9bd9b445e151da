// An exchange of float32 among the GPUs of several processes, over NCCL. Errors are malloc'ed strings; NULL: success.
#ifndef PAIRSTREAM_NCCL_H
#define PAIRSTREAM_NCCL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSN_ID_BYTES 128

typedef struct psn_group psn_group;

typedef struct {
  psn_group *group;
  char *error;
} psn_group_result;

typedef struct {
  float *values;
  char *error;
} psn_room_result;

typedef struct {
  int done;
  char *error;
} psn_state;

char *psn_new_id(unsigned char *id);
psn_group_result psn_open(const unsigned char *id, int rank, int world, const char *device);
psn_state psn_ready(psn_group *g);                      // has NCCL done what it was asked for?
psn_room_result psn_room(psn_group *g, int64_t values);  // on the host, for what is added up next
char *psn_scatter(psn_group *g);                         // each rank gets the others' shares of its slice
char *psn_gather(psn_group *g);                          // adds them up, and sends the sum to all
char *psn_fetch(psn_group *g);                           // brings the sums to the host
psn_state psn_arrived(psn_group *g);                     // are they there?
char *psn_close(psn_group *g);                           // ends what is in flight, too

#ifdef __cplusplus
}
#endif

#endif
