// Functions of glibc that are newer than 2.28, for what Debian's compiler makes.

// libstdc++ reads it to leave out locks in a process of one thread (glibc 2.32).
char __libc_single_threaded = 0;

// FAISS and libstdc++ look at files. Before 2.33 this was linked into programs.
#ifdef __x86_64__
enum { layout = 1 }; // of struct stat
#else
enum { layout = 0 };
#endif
int __fxstat(int layout, int file, void *into);
int fstat(int file, void *into) { return __fxstat(layout, file, into); }
int fstat64(int file, void *into) { return __fxstat(layout, file, into); } // the same on 64 bits

// libstdc++ gets random numbers from it (glibc 2.36).
long getrandom(void *into, unsigned long size, unsigned flags);
unsigned arc4random(void) {
	unsigned random;
	while (getrandom(&random, sizeof random, 0) != (long)sizeof random) {
	}
	return random;
}
