// A device for tests. Errors are malloc'ed strings; NULL: success.
#ifndef PAIRSTREAM_TESTDEVICE_H
#define PAIRSTREAM_TESTDEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

char *psd_install(void);
void psd_reset(void);
char *psd_counts(void);  // lines of kind, name and number; caller frees

#ifdef __cplusplus
}
#endif

#endif
