// How a program starts on glibc 2.28.

typedef void (*step)(int, char **, char **);
extern step __preinit_array_start[] __attribute__((visibility("hidden"))), __preinit_array_end[] __attribute__((visibility("hidden")));
extern step __init_array_start[] __attribute__((visibility("hidden"))), __init_array_end[] __attribute__((visibility("hidden")));
int __real___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, step init, void (*fini)(void), void (*loader)(void), void *stack);

// From 2.34 on glibc runs a program's constructors by itself, and the file that programs start with (crt1.o) names none. Earlier
// ones run those that they are told of.
static void construct(int argc, char **argv, char **environment) {
	for (step *s = __preinit_array_start; s < __preinit_array_end; s++) {
		(*s)(argc, argv, environment);
	}
	for (step *s = __init_array_start; s < __init_array_end; s++) {
		(*s)(argc, argv, environment);
	}
}

// The linker lets crt1.o call this (--wrap).
int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, step init, void (*fini)(void), void (*loader)(void), void *stack) {
	(void)init;
	(void)fini;
	return __real___libc_start_main(main, argc, argv, construct, 0, loader, stack);
}
