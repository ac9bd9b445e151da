#include "filemap.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// A mapping is watched while its end is not 0. The end is written last and cleared first, so that the handler, which may run
// on any thread at any moment, never sees half of one. Linux maps at most so many places.
enum { slots = 1 << 16 };
static struct {
    _Atomic uintptr_t from, to;
    _Atomic int cut;
} watched[slots];
static _Atomic int used;
static atomic_flag changing = ATOMIC_FLAG_INIT;
static struct sigaction before;
static uintptr_t page;

// on_bus puts zeros in place of what cannot be read. It calls nothing that a handler may not call.
static void on_bus(int number, siginfo_t *info, void *context) {
    int saved = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0, n = atomic_load(&used); i < n; i++) {
        uintptr_t to = atomic_load(&watched[i].to), from = atomic_load(&watched[i].from);
        if (to == 0 || at < from || at >= to) {
            continue;
        }
        atomic_store(&watched[i].cut, 1); // before anybody can see a zero
        uintptr_t first = at & ~(page - 1);
        void *zeros = mmap((void *)first, to - first, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        errno = saved;
        if (zeros != MAP_FAILED) {
            return;
        }
    }
    errno = saved;
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        signal(SIGBUS, SIG_DFL); // the access is made again, and ends the process
    } else {
        before.sa_handler(number);
    }
}

int ps_filemap_install(void) {
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &before) != 0) {
        return errno;
    }
    struct sigaction now = {0};
    now.sa_sigaction = on_bus;
    now.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART; // on the stack that Go has for signals
    sigfillset(&now.sa_mask);
    return sigaction(SIGBUS, &now, NULL) == 0 ? 0 : errno;
}

int ps_filemap_watch(void *from, size_t size) {
    while (atomic_flag_test_and_set(&changing)) {
    }
    int slot = -1;
    for (int i = 0; i < slots && slot < 0; i++) {
        if (atomic_load(&watched[i].from) == 0) {
            slot = i;
        }
    }
    if (slot >= 0) {
        atomic_store(&watched[slot].cut, 0);
        atomic_store(&watched[slot].from, (uintptr_t)from);
        atomic_store(&watched[slot].to, (uintptr_t)from + size);
        if (slot >= atomic_load(&used)) {
            atomic_store(&used, slot + 1);
        }
    }
    atomic_flag_clear(&changing);
    return slot;
}

int ps_filemap_cut(int slot) { return atomic_load(&watched[slot].cut); }

void ps_filemap_forget(int slot) {
    atomic_store(&watched[slot].to, 0);
    atomic_store(&watched[slot].from, 0);
}
